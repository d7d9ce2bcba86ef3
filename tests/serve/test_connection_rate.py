"""New connections by host: a burst, then a rate; and no more memory than for so many hosts."""

from __future__ import annotations

from trimtab.serve import connection_rate
from trimtab.serve.connection_rate import ConnectionRate


def test_a_burst_and_then_a_rate() -> None:
    """Other hosts have their own; tokens come back with time, up to the burst."""
    rate = ConnectionRate(per_second=2.0, burst=3.0)
    assert [True] * 3 + [False] * 2 == [rate.allows("a", 0.0) for _ in range(5)]
    assert rate.allows("b", 0.0)
    assert [True, False] == [rate.allows("a", 0.5) for _ in range(2)]
    assert [True] * 3 + [False] == [rate.allows("a", 100.0) for _ in range(4)]


def test_hosts_are_forgotten() -> None:
    """When there are many, those with full buckets go; one that is out of tokens is not forgiven."""
    rate = ConnectionRate(per_second=1.0, burst=1.0)
    for number in range(connection_rate.MAX_HOSTS):
        rate.allows(f"old-{number}", 0.0)
    assert rate.allows("new", 10.0) and not rate.allows("new", 10.0)
    assert 1 == len(rate._buckets)

"""Gates keep a pod out of the queue and are listed in their own order."""

import pytest

from tests.build import pod
from trimtab.core.plugins.scheduling_gates import SchedulingGates


@pytest.mark.parametrize(
    ("gates", "words"),
    [
        ((), None),
        (("one",), "waiting for scheduling gates: [one]"),
        (("two", "one"), "waiting for scheduling gates: [two one]"),
    ],
)
def test_gate(gates: tuple[str, ...], words: str | None) -> None:
    """A pod is admitted only without gates."""
    assert words == SchedulingGates().pre_enqueue(pod("web", gates=gates))

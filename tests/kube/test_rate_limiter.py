"""The rate limit of clientConnection is kept."""

from __future__ import annotations

import asyncio

import pytest

from trimtab.kube.transport import rate_limiter


@pytest.mark.parametrize("qps", [None, 0, -1.0])
def test_no_rate_means_no_limit(qps: float | None) -> None:
    """Unset, 0 and less are all unlimited."""
    assert rate_limiter(qps, 100) is None


@pytest.mark.looptime
async def test_a_burst_goes_at_once_and_the_rest_in_step() -> None:
    """At 10 a second and a burst of 3, the first three go at once and each next one 0.1 s later; idle time refills."""
    gate = rate_limiter(10.0, 3)
    assert gate is not None
    loop = asyncio.get_running_loop()
    start, admitted = loop.time(), []
    for _ in range(5):
        await gate.wait()
        admitted.append(round(loop.time() - start, 3))
    assert [0.0, 0.0, 0.0, 0.1, 0.2] == admitted
    await asyncio.sleep(10.0)
    again = loop.time()
    for _ in range(3):
        await gate.wait()
    assert again == loop.time()

"""Memory stays flat while a hundred thousand pods come and go."""

from __future__ import annotations

import pytest

from tests.soak.churn import WARM_UP, Churn

pytestmark = [pytest.mark.soak, pytest.mark.timeout(3_600)]


async def test_churn_leaves_nothing_behind() -> None:
    """100,000 pods created and deleted, 1,000 nodes replaced, settings reloaded 100 times: at most a tenth more than after
    the first tenth."""
    churn = Churn()
    measured = await churn.run(pods=100_000, flaps=1_000, reloads=100)
    print("MiB after each tenth:", *(f"{each:.1f}" for each in measured))
    assert 100_000 + WARM_UP == churn.scheduled
    assert max(measured) <= 1.1 * measured[0]

"""Evicted pods have their own grace period, unless the settings say otherwise."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.core.rescheduling.move_records import done
from trimtab.core.model.instructions import Evict
from trimtab.core.rescheduling.execution import Execution
from trimtab.core.rescheduling.settings import ReschedulingSettings


@pytest.mark.parametrize("seconds", [0, 5])
def test_the_eviction_has_the_grace_period_of_the_settings(seconds: int) -> None:
    """0 leaves it to the pod."""
    settings = SimpleNamespace(rescheduling=ReschedulingSettings(grace_period=float(seconds)))
    execution = Execution(cast(Any, SimpleNamespace(settings=settings)))
    evict, _ = execution._evict(done())
    assert isinstance(evict, Evict) and seconds == evict.grace

"""`trimtab run --check-invariants`: checks the engine's state now and then, some 50 ms at a time, between turns."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from trimtab.core.engine import Engine
from trimtab.core.invariants import InvariantChecker

log = logging.getLogger(__name__)

BUDGET_SECONDS = 0.04  # of a run; the slice that exceeds it is the last one
SLICE_SECONDS = 0.01  # of a slice; and after which no check of the whole cluster begins, for it cannot be made smaller
MAX_LOGGED = 20  # violations of one run
MAX_CHARACTERS = 500  # of one violation


class InvariantChecks:
    """Checks a part of the state every `interval` seconds; what is left of a round is checked next time.

    on_violations: told how many there were.
    """

    def __init__(self, engine: Engine, interval: float, on_violations: Callable[[int], None]) -> None:
        self._checker, self._interval, self._on_violations = InvariantChecker(engine), interval, on_violations
        self._nodes_per_slice = 1

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            self.check()

    def check(self) -> None:
        """One run; whatever is wrong, the process goes on."""
        try:
            violations = self._check_slices()
        except Exception:
            log.exception("invariant check failed")
            return
        for violation in violations[:MAX_LOGGED]:
            log.error("invariant violated: violation=%s", violation[:MAX_CHARACTERS])
        if violations:
            log.error("invariants violated: count=%d", len(violations))
            self._on_violations(len(violations))

    def _check_slices(self) -> list[str]:
        if self._checker.finished:
            self._checker.start_round()
        violations: list[str] = []
        begin = start = time.perf_counter()
        while not self._checker.finished:
            violations += self._checker.check(self._nodes_per_slice)
            now = time.perf_counter()
            fast, start = now - start < SLICE_SECONDS, now
            self._nodes_per_slice = self._nodes_per_slice * 2 if fast else max(self._nodes_per_slice // 2, 1)
            if now - begin >= (BUDGET_SECONDS if self._checker.sliced else SLICE_SECONDS):
                break
        return violations

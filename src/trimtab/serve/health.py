"""Health checks in Kubernetes' form.

    /livez     the process answers and its event loop runs. Passes while the API server is down: a restart would not help.
    /readyz    it could work if it were the leader: every informer is synced and connected. A standby is ready, too.
    /healthz   same as /livez, for old probes.

The reason of a failure is only logged, because these pages are unauthenticated. A thread of their own serves them, so a
check may only read what another thread may change at any time.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Check:
    """A named check; `run` returns None when it passes, otherwise the reason."""

    name: str
    run: Callable[[], str | None]


class HealthResult(NamedTuple):
    """Whether all checks passed, and the response text."""

    ok: bool
    text: str


def ping() -> Check:
    """Always passes: the process answers."""
    return Check("ping", lambda: None)


def flag_check(name: str, passes: Callable[[], bool], reason: str) -> Check:
    """Passes while `passes` returns True."""
    return Check(name, lambda: None if passes() else reason)


def freshness_check(name: str, age: Callable[[], float], limit: float) -> Check:
    """Passes while the last occurrence is at most `limit` seconds ago."""

    def run() -> str | None:
        seconds = age()
        return None if seconds <= limit else f"last seen {seconds:.1f} s ago, more than {limit:g} s"

    return Check(name, run)


class Health:
    """The three pages and their checks."""

    def __init__(self, live: tuple[Check, ...] = (), ready: tuple[Check, ...] = ()) -> None:
        self._pages: Mapping[str, tuple[Check, ...]] = {
            "livez": (ping(), *live),
            "readyz": (ping(), *ready),
            "healthz": (ping(), *live),
        }
        self._failing: set[str] = set()

    @property
    def pages(self) -> tuple[str, ...]:
        """The names of the pages."""
        return tuple(self._pages)

    def page(self, page: str, verbose: bool = False) -> HealthResult:
        """Run all checks of a page; they are listed if `verbose`, or if one failed."""
        passed = {check.name: self._passes(check) for check in self._pages[page]}
        if all(passed.values()) and not verbose:
            return HealthResult(True, "ok")
        lines = [f"[+]{name} ok" if ok else f"[-]{name} failed: reason withheld" for name, ok in passed.items()]
        outcome = "passed" if all(passed.values()) else "failed"
        return HealthResult(all(passed.values()), "\n".join([*lines, f"{page} check {outcome}\n"]))

    def single(self, page: str, name: str) -> HealthResult | None:
        """Run one check of a page; None if there is none of that name."""
        check = next((check for check in self._pages[page] if check.name == name), None)
        if check is None:
            return None
        if self._passes(check):
            return HealthResult(True, "ok")
        return HealthResult(False, "internal server error: reason withheld\n")

    def _passes(self, check: Check) -> bool:
        try:
            reason = check.run()
        except Exception as error:  # a check that raises has failed
            reason = f"{type(error).__name__}: {error}"
        self._log_transition(check.name, reason)
        return reason is None

    def _log_transition(self, name: str, reason: str | None) -> None:
        """Log when a check starts to fail and when it passes again, not at every probe."""
        if reason is None and name in self._failing:
            self._failing.discard(name)
            log.info("health check passes again: check=%s", name)
        elif reason is not None and name not in self._failing:
            self._failing.add(name)
            log.warning("health check failed: check=%s reason=%s", name, reason)

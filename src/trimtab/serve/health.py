"""Decides what the health pages say, in Kubernetes' form; leaves what is well to the checks it is given.

    /livez     the process is of use: it answers, and its loop turns. The API server may be down: a restart would not help.
    /readyz    it could do its work if it led: every watch has listed once. A standby is ready, too.
    /healthz   as /livez: old probes restart whoever fails it.

Why a check failed is for the log alone, for these pages are open to everybody who reaches them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Check:
    """A question with a name; no answer means that all is well, words say what is not."""

    name: str
    run: Callable[[], str | None]


class HealthResult(NamedTuple):
    """What is sent: whether all is well, and the page's text."""

    ok: bool
    text: str


def ping() -> Check:
    """Well whenever it can be asked: the process is there and its event loop turns."""
    return Check("ping", lambda: None)


def flag_check(name: str, question: Callable[[], bool], otherwise: str) -> Check:
    """Well as long as the question is answered with yes."""
    return Check(name, lambda: None if question() else otherwise)


def freshness_check(name: str, age: Callable[[], float], limit: float) -> Check:
    """Well as long as something happened within so many seconds: a loop came round, a lease was tried for."""

    def ask() -> str | None:
        seconds = age()
        return None if seconds <= limit else f"last heard of {seconds:.1f} s ago, more than {limit:g} s"

    return Check(name, ask)


class Health:
    """The three pages and their checks."""

    def __init__(self, live: tuple[Check, ...] = (), ready: tuple[Check, ...] = ()) -> None:
        self._pages: Mapping[str, tuple[Check, ...]] = {
            "livez": (ping(), *live),
            "readyz": (ping(), *ready),
            "healthz": (ping(), *live),
        }
        self._failing: dict[str, str] = {}

    @property
    def pages(self) -> tuple[str, ...]:
        """The names of the pages."""
        return tuple(self._pages)

    def page(self, page: str, verbose: bool = False) -> HealthResult:
        """All checks of a page; each is named when somebody wants to know, or when one failed."""
        well = {check.name: self._passes(check) for check in self._pages[page]}
        if all(well.values()) and not verbose:
            return HealthResult(True, "ok")
        lines = [f"[+]{name} ok" if passed else f"[-]{name} failed: reason withheld" for name, passed in well.items()]
        outcome = "passed" if all(well.values()) else "failed"
        return HealthResult(all(well.values()), "\n".join([*lines, f"{page} check {outcome}\n"]))

    def single(self, page: str, name: str) -> HealthResult | None:
        """One check of a page; None when it has none of that name."""
        check = next((check for check in self._pages[page] if check.name == name), None)
        if check is None:
            return None
        return (
            HealthResult(True, "ok")
            if self._passes(check)
            else HealthResult(False, "internal server error: reason withheld\n")
        )

    def _passes(self, check: Check) -> bool:
        try:
            problem = check.run()
        except Exception as error:  # a check that cannot be made has not passed
            problem = f"{type(error).__name__}: {error}"
        self._log_transition(check.name, problem)
        return problem is None

    def _log_transition(self, name: str, problem: str | None) -> None:
        """Tell the log once when a check begins to fail and once when it passes again, not at every probe."""
        before = self._failing.pop(name, None)
        if problem is not None:
            self._failing[name] = problem
            if before is None:
                log.warning("unhealthy: check=%s problem=%s", name, problem)
        elif before is not None:
            log.info("healthy again: check=%s", name)

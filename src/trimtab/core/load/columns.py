"""Measured load as columns: what each node uses, what its pods will use, and whether that can still be believed.

Missing is never zero: a node without a sample, or with one that is too old, has NaN, and every comparison with it fails.
Node columns follow the cluster's rows and pod columns its slots; `Cluster` says who comes, goes and moves. All answers are
in the units of requests: thousandths of a core, bytes. Arrays are the live ones: copy before keeping or changing them.

One object, made of three classes that stand on each other, each in a file of its own:

| class | does | is called by |
|---|---|---|
| `state.LoadState` | holds all; follows nodes and pods that come, go and change; makes twins | `Cluster`, views |
| `answers.LoadAnswers` | answers questions by row and by slot, and changes nothing | plugins |
| `columns.LoadColumns` (here) | takes scrapes, failures and time in, and counts anew what follows (`_settle`) | `Cluster` |

What it holds: `nodes/meter` the newest value of each node and how far it is believed, `nodes/course` how nodes went,
`nodes/ground` whose name they have; `pods/standing` who is where since when, `pods/shares` and `pods/profiles` what was
measured of each pod, `pods/departed` who has gone; `pods/account` says what each pod counts for, and `estimating` what pods
are taken to use that nobody has seen. A scrape goes through `reading`, where `intake` decides which numbers are believed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from trimtab.core.load.aligned import Floats
from trimtab.core.load.answers import LoadAnswers
from trimtab.core.load.pods.shares import SUMMED
from trimtab.core.load.reading import Machines, recall, take
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.sample import Reading


class LoadColumns(LoadAnswers):
    """Everything measured. Plugins read it through `View.load`; only `Cluster` and the engine write it."""

    _next_change = math.inf

    @property
    def settings(self) -> LoadSettings:
        return self._settings

    @settings.setter
    def settings(self, settings: LoadSettings) -> None:
        if settings != self._settings:
            anew, self._settings = settings.estimates != self._settings.estimates, settings
            if anew:
                for name in self.accounts:
                    self.estimate_anew(name, np.flatnonzero(self.standing.taken), by_rule=True)
            self._settle()

    def read(self, readings: Sequence[Reading], at: float, machines: Machines) -> Counter[str]:
        """Take a scrape in; returns how many numbers were not believed, by reason."""
        self.now = max(self.now, at)
        refused = take(self, readings, machines)
        self._settle(weigh=True)
        return refused

    def recall(self, readings: Sequence[Reading], at: float, machines: Machines) -> Counter[str]:
        """Take history in: rings, snapshots and sums, never the latest value. Each reading is of one moment."""
        self.now = max(self.now, at)
        refused = recall(self, readings, machines)
        self._settle()
        return refused

    def fail(self, source: str, at: float) -> None:
        """The source does not answer: nothing of it is believed until it does."""
        self.now = max(self.now, at)
        self.failed.add(self.sources.setdefault(source, len(self.sources)))
        self._settle()

    def age(self, at: float) -> bool:
        """Let time pass; whether anything is trusted less for it."""
        self.now = max(self.now, at)
        if self.now <= self._next_change:
            return False
        judged = [meter.judge(self.now, self._settings, self.failed) for meter in self.all_meters()]
        if any(crossed for _, crossed in judged):
            self._settle()
        self._next_change = self._soonest()
        return any(changed for changed, _ in judged)

    def _settle(self, *, weigh: bool = False) -> None:
        """Judge what is held as of now, and count anew what follows from it."""
        for meter in self.all_meters():
            meter.judge(self.now, self._settings, self.failed)
        self.departed.trim(self.now, self._reach())
        for account in self.accounts.values():
            account.judge(self.now, self._settings.stale, self.failed)
            account.recount(self.standing, self.departed)
            if weigh:
                account.weigh(self.standing, self.departed)
        self._next_change = self._soonest()
        self._drop_derived()

    def _reach(self) -> float:
        """How far back the oldest sample of a node speaks that can be believed."""
        windows = [account.meter.window.max(initial=0.0) for account in self.accounts.values()]
        return float(self._settings.stale + max(windows))

    def _soonest(self) -> float:
        return min((meter.next_change(self.now, self._settings) for meter in self.all_meters()), default=math.inf)

    def miscounted(self) -> Iterator[str]:
        """Sentences, one for each sum that is not what a fresh count gives."""
        taken = np.flatnonzero(self.standing.taken)
        for name, account in self.accounts.items():
            shares, totals, rounded = account.shares, account.totals, 1e-9 * account.largest
            squared = 100 * rounded**2
            slack = np.array([[rounded], [squared], [squared], [rounded], [rounded], [rounded], [rounded]])
            held = np.array([getattr(shares, line)[taken] for line in (*SUMMED, "shown")])
            fresh = np.array(account.all(taken, self.standing))
            if _apart(held, fresh, slack):
                yield f"pods count {held.tolist()} in {name}, counted anew {fresh.tolist()}"
            held = np.array([getattr(totals, line) for line in SUMMED])
            fresh = np.array(account.summed(taken, self.standing, self.departed))
            if _apart(held, fresh, slack[:-1]):
                yield f"load of {name} is {held.tolist()} by row, counted {fresh.tolist()}"


def _apart(held: Floats, counted: Floats, slack: Floats) -> bool:
    """Beyond what sums made in another order differ by, and what has come and gone leaves behind; NaN is always apart."""
    return not bool((np.abs(held - counted) <= slack + 1e-6 * np.abs(counted)).all())

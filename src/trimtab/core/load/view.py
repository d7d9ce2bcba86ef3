"""Measured load as columns: what each node uses, what its pods will use, and whether that can still be believed.

Missing is never zero: a node without a sample, or with one that is too old, has NaN, and every comparison with it fails.
Node columns follow the cluster's rows and pod columns its slots; `Cluster` says who comes, goes and moves. All answers are
in the units of requests: thousandths of a core, bytes. Arrays are the live ones: copy before keeping or changing them.

One object, made of three classes that stand on each other, each in a file of its own:

| class | does | is called by |
|---|---|---|
| `state.LoadStore` | holds all; follows nodes and pods that come, go and change; makes twins | `Cluster`, views |
| `answers.LoadReads` | answers questions by row and by slot, and changes nothing | plugins |
| `columns.LoadView` (here) | takes scrapes, failures and time in, and counts anew what follows (`_settle`) | `Cluster` |

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

from trimtab.core.load.array_table import Floats
from trimtab.core.load.ingest import NodeIndex, ingest, ingest_history
from trimtab.core.load.pod_usage import SUMMED
from trimtab.core.load.reads import LoadReads
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.readings import Reading


class LoadView(LoadReads):
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
                for name in self.accounting:
                    self.update_estimates(name, np.flatnonzero(self.placed_pods.taken), by_rule=True)
            self._recompute()

    def ingest(self, readings: Sequence[Reading], now: float, machines: NodeIndex) -> Counter[str]:
        """Take a scrape in; returns how many numbers were not believed, by reason."""
        self.now = max(self.now, now)
        refused = ingest(self, readings, machines)
        self._recompute(weigh=True)
        return refused

    def ingest_history(self, readings: Sequence[Reading], now: float, machines: NodeIndex) -> Counter[str]:
        """Take history in: rings, snapshots and sums, never the latest value. Each reading is of one moment."""
        self.now = max(self.now, now)
        refused = ingest_history(self, readings, machines)
        self._recompute()
        return refused

    def source_failed(self, source: str, now: float) -> None:
        """The source does not answer: nothing of it is believed until it does."""
        self.now = max(self.now, now)
        self.failed_sources.add(self.source_ids.setdefault(source, len(self.source_ids)))
        self._recompute()

    def advance(self, now: float) -> bool:
        """Let time pass; whether anything is trusted less for it."""
        self.now = max(self.now, now)
        if self.now <= self._next_change:
            return False
        judged = [meter.update_trust(self.now, self._settings, self.failed_sources) for meter in self.all_samples()]
        if any(crossed for _, crossed in judged):
            self._recompute()
        self._next_change = self._next_trust_change()
        return any(changed for changed, _ in judged)

    def _recompute(self, *, weigh: bool = False) -> None:
        """Judge what is held as of now, and count anew what follows from it."""
        for meter in self.all_samples():
            meter.update_trust(self.now, self._settings, self.failed_sources)
        self.terminated_pods.trim(self.now, self._horizon())
        for account in self.accounting.values():
            account.set_trust(self.now, self._settings.stale, self.failed_sources)
            account.recompute(self.placed_pods, self.terminated_pods)
            if weigh:
                account.update_system_usage(self.placed_pods, self.terminated_pods)
        self._next_change = self._next_trust_change()
        self._invalidate_all()

    def _horizon(self) -> float:
        """How far back the oldest sample of a node speaks that can be believed."""
        windows = [account.samples.window.max(initial=0.0) for account in self.accounting.values()]
        return float(self._settings.stale + max(windows))

    def _next_trust_change(self) -> float:
        return min(
            (meter.next_trust_change(self.now, self._settings) for meter in self.all_samples()), default=math.inf
        )

    def miscounted(self) -> Iterator[str]:
        """Sentences, one for each sum that is not what a fresh count gives."""
        taken = np.flatnonzero(self.placed_pods.taken)
        for name, account in self.accounting.items():
            shares, totals, rounded = account.pods, account.totals, 1e-9 * account.precision_limit
            squared = 100 * rounded**2
            slack = np.array([[rounded], [squared], [squared], [rounded], [rounded], [rounded], [rounded]])
            held = np.array([getattr(shares, line)[taken] for line in (*SUMMED, "shown")])
            fresh = np.array(account.account_all(taken, self.placed_pods))
            if _differ(held, fresh, slack):
                yield f"pods count {held.tolist()} in {name}, counted anew {fresh.tolist()}"
            held = np.array([getattr(totals, line) for line in SUMMED])
            fresh = np.array(account.sums_by_row(taken, self.placed_pods, self.terminated_pods))
            if _differ(held, fresh, slack[:-1]):
                yield f"load of {name} is {held.tolist()} by row, counted {fresh.tolist()}"


def _differ(held: Floats, counted: Floats, slack: Floats) -> bool:
    """Beyond what sums made in another order differ by, and what has come and gone leaves behind; NaN is always apart."""
    return not bool((np.abs(held - counted) <= slack + 1e-6 * np.abs(counted)).all())

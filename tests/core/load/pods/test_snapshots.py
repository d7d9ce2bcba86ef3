"""Decides whether what is kept of pods stays one moment for all, also when the past is read after the present."""

from __future__ import annotations

import numpy as np

from tests.core.load.meters import machines, of_pods, read, runs
from trimtab.core.model.resources import CPU

HOUR = 3600.0


def test_a_snapshot_is_one_moment_of_its_hour() -> None:
    """What history knows of an earlier moment of the same hour is not put beside what was measured later."""
    cluster = machines("a")
    for name in ("p", "q"):
        cluster.see_pod(runs(name, "a"))
    now = HOUR + 1800.0
    read(cluster, of_pods({"p": 100.0}, at=now))
    cluster.recall_load((of_pods({"p": 300.0, "q": 300.0}, at=now - 1200.0),), now)
    profiles = cluster.load.profiles(CPU)
    assert profiles is not None
    begun, snapshots = profiles.snapshots()
    line = int(np.flatnonzero(begun == now)[0])
    slots = [cluster.residents.slot[uid] for uid in sorted(cluster.places)]
    assert [100.0, None] == [None if cell != cell else float(cell) for cell in snapshots[line, slots]]

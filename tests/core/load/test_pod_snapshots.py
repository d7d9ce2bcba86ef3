"""Decides whether what is kept of pods stays one moment for all, also when the past is read after the present."""

from __future__ import annotations

import numpy as np

from tests.core.load.builders import cluster_of, ingest, pod_reading, running_pod
from trimtab.core.model.resources import CPU

HOUR = 3600.0


def test_a_snapshot_is_one_moment_of_its_hour() -> None:
    """What history knows of an earlier moment of the same hour is not put beside what was measured later."""
    cluster = cluster_of("a")
    for name in ("p", "q"):
        cluster.upsert_pod(running_pod(name, "a"))
    now = HOUR + 1800.0
    ingest(cluster, pod_reading({"p": 100.0}, at=now))
    cluster.ingest_history((pod_reading({"p": 300.0, "q": 300.0}, at=now - 1200.0),), now)
    profiles = cluster.load.pod_history(CPU)
    assert profiles is not None
    begun, snapshots = profiles.snapshots()
    line = int(np.flatnonzero(begun == now)[0])
    slots = [cluster.pod_table.slot[uid] for uid in sorted(cluster.placements)]
    assert [100.0, None] == [None if cell != cell else float(cell) for cell in snapshots[line, slots]]

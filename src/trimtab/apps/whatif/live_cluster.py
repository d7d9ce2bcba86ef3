"""Reads the live cluster for `trimtab whatif`, as `trimtab snapshot` does."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from trimtab.apps.snapshot.measurements import HistoryOptions
from trimtab.apps.snapshot.take import SnapshotOptions, run
from trimtab.config.configuration import Configuration
from trimtab.kube.credentials import Credentials
from trimtab.sim.snapshot_file import ClusterSnapshot, read_snapshot

HISTORY, STEP = 24 * 3600.0, 300.0


def snapshot_now(configuration: Configuration, credentials: Credentials) -> ClusterSnapshot:
    """The live cluster, with a day of history where a source has one; raises SnapshotFailed and OSError."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "snapshot.json"
        history = HistoryOptions(HISTORY, STEP) if configuration.trimtab.sources else None
        run(SnapshotOptions(configuration, history), credentials, file)
        return read_snapshot(file)

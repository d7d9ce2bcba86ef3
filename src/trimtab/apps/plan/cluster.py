"""Reads the live cluster for a plan: as `trimtab snapshot` does, so only by GET requests.

Without a configured source metrics-server is asked, which most clusters have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trimtab.apps.snapshot.measurements import HistoryOptions
from trimtab.apps.snapshot.take import SnapshotOptions, read_cluster
from trimtab.config.configuration import Configuration
from trimtab.config.trimtab.plugin_sources import METRICS_SERVER_NAME
from trimtab.config.trimtab.settings import MetricsServerSettings
from trimtab.kube.credentials import Credentials
from trimtab.sim.snapshot_file import ClusterSnapshot

HISTORY = HistoryOptions(24 * 3600.0, 300.0)


def with_default_source(configuration: Configuration) -> Configuration:
    sources = configuration.trimtab.sources or (MetricsServerSettings(METRICS_SERVER_NAME),)
    return replace(configuration, trimtab=replace(configuration.trimtab, sources=sources))


def read_live_cluster(
    configuration: Configuration, credentials: Credentials, on_progress: Callable[[str], None]
) -> ClusterSnapshot:
    """Kinds that may not be listed are missing in it. Raises SnapshotFailed and OSError."""
    measured = with_default_source(configuration)
    remembers = any(not isinstance(each, MetricsServerSettings) for each in measured.trimtab.sources)
    options = SnapshotOptions(measured, HISTORY if remembers else None, skip_forbidden=True, on_progress=on_progress)
    return read_cluster(options, credentials)

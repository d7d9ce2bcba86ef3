"""The values of a configuration file, both documents together."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from trimtab.config.diagnostics import Note
from trimtab.config.trimtab.settings import DEFAULT, TrimtabConfiguration
from trimtab.core.framework.profile import ExtensionPoint
from trimtab.core.model.setting import setting
from trimtab.core.settings import Settings

_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")


def _object_name_error(name: str) -> str | None:
    valid = not name or _OBJECT_NAME.fullmatch(name) is not None
    return None if valid else f"{name[:100]!r} is not a valid object name: use a-z, 0-9, '-' and '.'"


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """Only the holder of this lease schedules; if not `enabled`, every replica does. Times in seconds."""

    enabled: bool = setting(True, name="leaderElect")
    lease_duration: float = setting(15.0, seconds=(0, inf))
    renew_deadline: float = setting(10.0, seconds=(0, inf))
    retry_period: float = setting(2.0, seconds=(0, inf))
    name: str = setting("trimtab", name="resourceName", validate=_object_name_error)
    namespace: str = setting("trimtab", name="resourceNamespace", validate=_object_name_error)


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """How to reach the API server; an empty kubeconfig means the default locations, no qps means no limit."""

    kubeconfig: str = ""
    qps: float | None = None
    burst: int = setting(100, between=(0, (1 << 31) - 1))


@dataclass(frozen=True, slots=True)
class WrittenProfile:
    """A profile as a file has it, so that it can be written again.

    plugins: those that are enabled or only configured, by name. enabled: their names and weights at each of
    kube-scheduler's points, in order, also where one method here does the work of two there.
    given: the arguments that the file sets, by plugin.
    """

    plugins: Mapping[str, object]
    enabled: Mapping[ExtensionPoint, tuple[tuple[str, int], ...]]
    given: Mapping[str, frozenset[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Configuration:
    """Everything that a file configures, and the notes on it."""

    settings: Settings
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    notes: tuple[Note, ...] = ()
    trimtab: TrimtabConfiguration = DEFAULT
    written: Mapping[str, WrittenProfile] = field(default_factory=dict)  # profiles of a file, by name
    scheduler_leases: Mapping[str, str] = field(default_factory=dict)  # namespace/name, by other schedulers

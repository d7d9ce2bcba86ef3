"""What a configuration file comes to, as plain values; how it is read is left to `scheduler`."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.config.diagnostics import Note
from trimtab.config.trimtab.settings import DEFAULT, TrimtabConfiguration
from trimtab.core.settings import Settings


@dataclass(frozen=True, slots=True)
class LeaderElection:
    """Who may decide: the holder of this lease, or, if not `enabled`, everybody. Times in seconds."""

    enabled: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    name: str = "trimtab"
    namespace: str = "trimtab"


@dataclass(frozen=True, slots=True)
class ClientConnection:
    """How to speak to the API server; an empty kubeconfig means the usual places, no qps means no limit."""

    kubeconfig: str = ""
    qps: float | None = None
    burst: int = 100


@dataclass(frozen=True, slots=True)
class Configuration:
    """All that a file decides, and what its author should know about it."""

    settings: Settings
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    notes: tuple[Note, ...] = ()
    trimtab: TrimtabConfiguration = DEFAULT

"""The options of a trace: which recording, and how it is varied."""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct


class TraceOptions(Struct, frozen=True):
    """Options that a format does not have are not used by its loader.

    nodes: only this many, the first ones. requests, usage: factors. shuffle_usage: deals usage out anew among apps, in an
    order that this number decides. stagger: pods of one app arrive within this time instead of together. labels: pods have
    labels, and apps Services. initial_placement: pods begin on the nodes where they were recorded.
    ready_delay: how long after their start pods become ready, in seconds.
    pod_list, demand: of openb, which list, and how far it is repeated. day: of PlanetLab; the first one if empty.
    """

    folder: Path
    nodes: int | None = None
    requests: float = 1.0
    usage: float = 1.0
    shuffle_usage: int | None = None
    stagger: float = 0.0
    labels: bool = False
    initial_placement: bool = False
    ready_delay: float = 0.0
    pod_list: str = "default"
    demand: float = 1.3
    day: str = ""

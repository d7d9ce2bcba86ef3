"""Scenes: what `trimtab demo` tells about a scenario, part by part."""

from __future__ import annotations

from msgspec import Struct

from trimtab.sim.scenario import Scenario
from trimtab.sim.shipped import shipped


class Scene(Struct, frozen=True):
    """Ends so many seconds after the scenario's beginning; `frame_seconds` are between two snapshots."""

    title: str
    description: str
    ends: float
    frame_seconds: float


class Play(Struct, frozen=True):
    """Consecutive scenes of one shipped scenario."""

    name: str
    scenes: tuple[Scene, ...]

    def scenario(self) -> Scenario:
        return shipped(self.name)

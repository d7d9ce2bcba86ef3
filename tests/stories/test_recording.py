"""A simulated run by measured load, recorded and replayed: samples, their history and estimates come out the same."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import pytest
from msgspec.structs import replace

from trimtab.apps.recording import Recording, RecordingOptions
from trimtab.apps.replay import Replay, Result, read_settings
from trimtab.core.controllers import Output
from trimtab.core.model.events import ConfigText, Event
from trimtab.core.model.instructions import LabelNode
from trimtab.sim.demo.hot_node import HOT_NODE_PLAY
from trimtab.sim.simulation import Simulation

SCHEDULER, BOTH = ("scheduler",), ("scheduler", "labeller")
LABELS = b"""labels:
  mode: apply
  rules:
  - {name: cpu, metric: cpu, above: 80%, clear: 65%, for: 1s}
"""


def template(name: str) -> ConfigText:
    folder = resources.files("trimtab.config") / "templates"
    return ConfigText(f"{name}.yaml", (folder / f"{name}.yaml").read_bytes())


class RecordedSimulation:
    """The demo's hot node, recorded from its first event."""

    def __init__(self, path: Path, config: ConfigText, controllers: tuple[str, ...] = SCHEDULER, seed: int = 7) -> None:
        self._early: list[tuple[Event, Sequence[Output]]] = []
        self.recording: Recording | None = None
        settings = read_settings(config, controllers)
        self.simulation = Simulation(HOT_NODE_PLAY.scenario(), settings, seed, record=self._record)
        self.recording = Recording(RecordingOptions(path, config, controllers=controllers), self.simulation.engine)
        for event, outputs in self._early:
            self.recording.record(event, outputs)

    def _record(self, event: Event, outputs: Sequence[Output]) -> None:
        if self.recording is None:
            self._early.append((event, outputs))
        else:
            self.recording.record(event, outputs)

    def run(self, seconds: float | None = None) -> RecordedSimulation:
        """So many seconds from the beginning, or to the end."""
        scenario = self.simulation.scenario
        self.simulation.run_until(scenario.begins + (scenario.duration if seconds is None else seconds))
        return self

    def fill(self) -> RecordedSimulation:
        """The next event that finds the engine idle starts a new file."""
        assert self.recording is not None
        self.recording._file.size = self.recording._options.max_size
        return self

    def close(self) -> None:
        assert self.recording is not None
        self.recording.close()


def replayed(path: Path) -> Result:
    replay = Replay(path)
    for _ in replay.run():
        pass
    return replay.result


@pytest.mark.parametrize("name", ["default", "production", "hpc", "memory", "microservices", "multitenant"])
def test_a_run_by_measured_load_replays_to_the_same_decisions(tmp_path: Path, name: str) -> None:
    """Each template has other plugins, and all of them read samples."""
    RecordedSimulation(tmp_path / "r", template(name)).run().close()
    result = replayed(tmp_path / "r")
    assert (0, []) == (result.other_scores, result.differences)
    assert result.decisions == result.same_decisions >= 25
    assert result.events["SamplesRead"] >= 20


def test_a_process_that_schedules_and_labels_replays_to_the_same_labels(tmp_path: Path) -> None:
    """Rules walk their states again, and the hot node is labelled at the same moments."""
    config = template("default")
    config = replace(config, content=config.content + LABELS)
    RecordedSimulation(tmp_path / "r", config, BOTH).run().close()
    replay = Replay(tmp_path / "r")
    labels = [each for record in replay.run() for each in record.outputs if isinstance(each, LabelNode)]
    assert (0, []) == (replay.result.other_scores, replay.result.differences)
    assert {"worker-2"} == {each.node for each in labels}


def test_a_replay_from_a_snapshot_decides_by_the_newest_samples(tmp_path: Path) -> None:
    """Scores differ a little without the older ones; the nodes are the same, the hot one avoided."""
    simulation = RecordedSimulation(tmp_path / "r", template("default")).run(100.0).fill()
    simulation.run().close()
    result = replayed(tmp_path / "r")
    assert result.decisions == result.same_decisions >= 15
    assert 0 < result.other_scores <= result.decisions

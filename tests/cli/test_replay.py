"""`trimtab replay`: the same decisions, others, or a sentence that says why it cannot tell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.core.engine_harness import node, pod
from trimtab.apps.recording import Recording, RecordingOptions
from trimtab.apps.replay import read_settings, same, same_scores, unmatched
from trimtab.cli import main
from trimtab.core.driver import Driver
from trimtab.core.engine import Engine
from trimtab.core.model.events import (
    BindDone,
    ConfigText,
    Event,
    LeaseAcquired,
    NodeUpserted,
    ObjectUpserted,
    PodUpserted,
    SettingsRead,
    Synced,
    Tick,
)
from trimtab.core.model.instructions import Bind, Instruction
from trimtab.core.model.schedule_result import Decision, NodeScore, Placement, Unschedulable
from trimtab.core.model.storage import PersistentVolumeClaim

START = 1_800_000_000.0
CONTROLLERS = ("scheduler",)
PROFILE = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: trimtab
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: %s, resources: [{name: cpu, weight: 1}]}}
  plugins:
    multiPoint:
      disabled: [{name: "*"}]
      enabled: [{name: PrioritySort}, {name: NodeResourcesFit}, {name: DefaultBinder}]
"""
SPREAD = ConfigText("config.yaml", (PROFILE % "LeastAllocated").encode())
PACK = ConfigText("config.yaml", (PROFILE % "MostAllocated").encode())


def replay(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["replay", *map(str, arguments)])


class RecordedRun:
    """A cluster of two nodes; pods are bound as they come."""

    def __init__(self, path: Path, config: ConfigText = SPREAD, recorded_config: ConfigText | None = None) -> None:
        self.at = START
        self.engine = Engine(read_settings(config, CONTROLLERS))
        self.recording = Recording(RecordingOptions(path, recorded_config or config), self.engine)
        self.driver = Driver(self.engine, self._perform, record=self.recording.record)
        self.put(*(Synced(kind, self.at) for kind in self.engine.state.settings.kinds))
        self.put(LeaseAcquired(1, self.at), NodeUpserted(node("a"), self.at), NodeUpserted(node("b"), self.at))

    def put(self, *events: Event) -> RecordedRun:
        for event in events:
            self.driver.put(event)
        self.driver.decide(self.at)
        return self

    def _perform(self, instruction: Instruction) -> None:
        if isinstance(instruction, Bind):
            self.driver.put(BindDone(instruction.uid, instruction.node, self.at))

    def pods(self, *names: str, cpu: int = 500) -> RecordedRun:
        for name in names:
            self.at += 1.0
            self.put(Tick(self.at), PodUpserted(pod(name, cpu=cpu, version=1), self.at))
        return self

    def close(self) -> None:
        self.recording.close()


def test_a_recording_gives_the_same_decisions(tmp_path: Path) -> None:
    """Exit code 0, with what there was in it."""
    RecordedRun(tmp_path / "r").pods("one", "two", "three").pods("huge", cpu=99_000).close()
    done = replay(tmp_path / "r")
    assert 0 == done.exit_code, done.output
    assert "same decisions: 4 of 4\n" in done.output
    assert "records from 2027-01-15T08:00:00.000Z to 2027-01-15T08:00:04.000Z\n" in done.output
    assert " 4 PodUpserted\n" in done.output
    assert "snapshot" not in done.output
    assert "other scores" not in done.output


def test_other_settings_give_other_decisions(tmp_path: Path) -> None:
    """Exit code 1, and the first ones are shown with what each side decided."""
    RecordedRun(tmp_path / "r", SPREAD, recorded_config=PACK).pods("one", "two", "three").close()
    done = replay(tmp_path / "r")
    assert 1 == done.exit_code
    assert "same decisions: 1 of 3\n" in done.output
    assert "(Turn) differs:\n  recorded: pod default/two, attempt 1: b " in done.output
    assert "  replayed: pod default/two, attempt 1: a " in done.output


def test_settings_that_changed_on_the_way_are_read_again(tmp_path: Path) -> None:
    """From the text in the recording."""
    run = RecordedRun(tmp_path / "r").pods("one", "two")
    run.put(SettingsRead(read_settings(PACK, CONTROLLERS), run.at, PACK)).pods("three", "four").close()
    assert 0 == replay(tmp_path / "r").exit_code


def test_a_recording_that_goes_on_from_a_snapshot(tmp_path: Path) -> None:
    """It says so; pods that were unschedulable before are so again, and decisions after it are the same."""
    run = RecordedRun(tmp_path / "r").pods("one").pods("huge", cpu=99_000)
    chosen = run.engine.cluster.placements["uid-one"].node
    run.put(PodUpserted(pod("one", cpu=500, version=2, node=chosen), run.at))
    run.recording._file.size = run.recording._options.max_size
    run.pods("two", "three").close()
    done = replay(tmp_path / "r")
    assert 0 == done.exit_code, done.output
    assert "starts from a snapshot of " in done.output
    assert "same decisions: 2 of 2\n" in done.output


def test_files_that_a_configuration_includes_are_in_the_recording() -> None:
    """They are not looked for on this machine."""
    text = (PROFILE % "LeastAllocated").replace(
        "pluginConfig:", "pluginConfig:\n  - {name: Dynamic, args: {policyConfigPath: policy.yaml}}"
    )
    text = text.replace("{name: DefaultBinder}", "{name: DefaultBinder}, {name: Dynamic}")
    with pytest.raises(Exception, match="it is not in the recording"):
        read_settings(ConfigText("/etc/c.yaml", text.encode()), CONTROLLERS)


def test_a_plugin_that_is_not_installed_here(tmp_path: Path) -> None:
    """Exit code 2, with the plugin's name."""
    unknown = ConfigText(
        "c.yaml", (PROFILE % "LeastAllocated").replace("{name: PrioritySort}", "{name: Theirs}").encode()
    )
    RecordedRun(tmp_path / "r", SPREAD, recorded_config=unknown).close()
    done = replay(tmp_path / "r")
    assert 2 == done.exit_code
    assert "the configuration recorded at its start cannot be read here" in done.stderr
    assert "Theirs" in done.stderr


def test_what_cannot_be_replayed_is_said_in_a_sentence(tmp_path: Path) -> None:
    """Exit code 2."""
    (tmp_path / "text").write_text("hello")
    for path, message in ((tmp_path / "text", "is not a recording of trimtab"), (tmp_path / "none", "cannot be read")):
        done = replay(path)
        assert (2, True, 1) == (done.exit_code, message in done.stderr, len(done.stderr.splitlines()))


def test_a_file_that_was_cut_is_replayed_up_to_there(tmp_path: Path) -> None:
    """As a crash leaves it."""
    RecordedRun(tmp_path / "r").pods("one").close()
    content = (tmp_path / "r").read_bytes()
    (tmp_path / "r").write_bytes(content + b"\x10\x00\x00\x00\x00\x00\x00\x00abc")
    done = replay(tmp_path / "r")
    assert 0 == done.exit_code
    assert f"the last 11 bytes, from byte {len(content)} on, were not written whole" in done.output


def test_an_event_that_the_engine_raises_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The traceback is shown, and the rest is replayed."""
    RecordedRun(tmp_path / "r").pods("one").close()
    handle = Engine.handle

    def raises(self: Engine, event: Event) -> object:
        if isinstance(event, PodUpserted):
            raise ValueError("broken")
        return handle(self, event)

    monkeypatch.setattr(Engine, "handle", raises)
    done = replay(tmp_path / "r")
    assert 1 == done.exit_code
    assert "ValueError: broken" in done.output


def test_records_as_lines_of_json(tmp_path: Path) -> None:
    """For grep and jq; the summary goes to stderr."""
    run = RecordedRun(tmp_path / "r").pods("one")
    run.put(SettingsRead(read_settings(PACK, CONTROLLERS), run.at, PACK)).close()
    done = replay("--print", tmp_path / "r")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [*range(len(lines))] == [line["record"] for line in lines]
    assert ("Header", SPREAD.content.decode()) == (lines[0]["event"], lines[0]["config"]["content"])
    (turn,) = [line for line in lines if line["event"] == "Turn"]
    assert ["Decision", "Bind"] == [output["type"] for output in turn["outputs"]]
    assert "MostAllocated" in next(line for line in lines if line["event"] == "SettingsRead")["config"]["content"]
    assert "same decisions: 1 of 1" in done.stderr


def test_numbers_of_any_size_are_printed(tmp_path: Path) -> None:
    """A claim may ask for more bytes than 64 bits can say."""
    claim = PersistentVolumeClaim(name="c", namespace="default", uid="u", requested=10**30)
    RecordedRun(tmp_path / "r").put(ObjectUpserted(claim, START)).close()
    done = replay("--print", tmp_path / "r")
    (line,) = [json.loads(line) for line in done.stdout.splitlines() if '"ObjectUpserted"' in line]
    assert (0, 10**30) == (done.exit_code, line["object"]["requested"])


@pytest.mark.parametrize(
    ("until", "known"), [("5", False), ("2027-01-15T08:00:01Z", False), ("999", True), (None, True)]
)
def test_a_pod_is_explained_as_of_where_the_replay_stopped(tmp_path: Path, until: str | None, known: bool) -> None:
    """By record number or time."""
    RecordedRun(tmp_path / "r").pods("one").close()
    done = replay(tmp_path / "r", "--explain", "pod/default/one", *(["--until", until] if until else []))
    assert 0 == done.exit_code
    assert known is (
        "if it were placed now" in done.output or "pod default/one is " in done.output.replace("is not known", "")
    )


@pytest.mark.parametrize("arguments", [("--until", "soon"), ("--explain", "node/a"), ("--explain", "pod/a")])
def test_an_argument_that_makes_no_sense(tmp_path: Path, arguments: tuple[str, str]) -> None:
    """Exit code 2."""
    assert 2 == replay(tmp_path / "r", *arguments).exit_code


def test_the_last_digits_of_scores_do_not_count() -> None:
    """Another processor may round otherwise; another node is another decision."""

    def decision(node: str, total: float) -> Decision:
        return Decision("u", "default/p", "trimtab", 1.0, 1, Placement(node, total, 2, 2, (NodeScore(node, total),)))

    def message(note: str) -> Decision:
        return Decision("u", "default/p", "trimtab", 1.0, 1, Unschedulable(2, note=note))

    assert same_scores(decision("a", 0.1 + 0.2), decision("a", 0.3))
    assert same_scores(decision("a", float("nan")), decision("a", float("nan")))
    assert not same_scores(decision("a", 0.3), decision("a", 0.4))
    assert same(decision("a", 0.3), decision("a", 0.4))
    assert not same(decision("a", 0.3), decision("b", 0.3))
    assert not same(decision("a", 0.3), message("full"))
    assert same(message("full"), message("full"))
    assert not same(message("full"), message("gone"))


def test_outputs_that_only_one_side_has() -> None:
    """Another order is a difference, too."""
    one, other = Bind("u", "n", "p", "a"), Bind("v", "n", "q", "a")
    assert ((), ()) == unmatched([one, other], [one, other])
    assert ((other,), ()) == unmatched([one, other], [one])
    assert ((one, other), (other, one)) == unmatched([one, other], [other, one])

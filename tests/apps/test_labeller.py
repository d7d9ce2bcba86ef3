"""A labeller process: when /status is ok, which changes of its rules it applies, and what it watches."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.core.engine_harness import node
from trimtab.apps.clock import Clock
from trimtab.apps.config_file import ConfigFile
from trimtab.apps.labeller_status import GRACE, MISSED_CYCLES, LabellerStatus
from trimtab.apps.process import LABELLER, Options, Process
from trimtab.apps.reload import Reload
from trimtab.config.configuration import Configuration
from trimtab.config.trimtab.labeller import from_rule_file
from trimtab.core.labelling.controller import Labelling
from trimtab.core.model.events import NodeUpserted, SamplesRead, SourceFailed
from trimtab.core.model.readings import Reading, Unit
from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.kubeconfig import ClusterConfig, UserConfig

INTERVAL = 10.0
TEXT = "Rulename: {cpu: {Promsql: a, Threshold: 70}, mem: {Promsql: b, Threshold: %s}}"


def reader(apply: bool = False) -> Callable[[bytes], Configuration]:
    return lambda content: from_rule_file(content, "rule.yaml", "http://127.0.0.1:9", INTERVAL, apply)


@pytest.fixture
async def labeller(tmp_path: Path) -> AsyncIterator[Process]:
    """A labeller that was never run, on a clock that the test moves."""
    credentials = Credentials(ClusterConfig(server="http://127.0.0.1:1"), UserConfig(), "test")
    file = ConfigFile(tmp_path / "rule.yaml", reader())
    made = Process(reader()((TEXT % 70).encode()), credentials, Options("me"), file, (LABELLER,))
    made.time, made.set_by = 1000.0, 0.0  # type: ignore[attr-defined]
    wall = lambda: made.time + made.set_by  # type: ignore[attr-defined] # noqa: E731
    made.clock = made.runtime.clock = Clock(wall, lambda: made.time)  # type: ignore[attr-defined]
    status = status_of(made)
    status.clock, status.rules_since = made.clock, 1000.0
    yield made
    await made._close()


def reading(rule: str, at: float) -> Reading:
    return Reading("prometheus/x", f"rule/{rule}", ("a",), (50.0,), (at,), unit=Unit.RAW)


def status_of(labeller: Process) -> LabellerStatus:
    (status,) = labeller.extensions
    assert isinstance(status, LabellerStatus)
    return status


def problems(labeller: Process) -> list[str]:
    return [
        f"{check.name}: {problem}" for check in status_of(labeller).checks() if (problem := check.run()) is not None
    ]


async def test_well_is_who_has_read_every_rule_lately(labeller: Process) -> None:
    """After three cycles without a sample of a rule the check names it; a failed source is not a sample."""
    labeller.informers.last_heard = lambda kind: labeller.clock()  # type: ignore[method-assign]
    assert ["rules: no rule has been read yet"] == problems(labeller)
    labeller._on_samples(SamplesRead((reading("cpu", 1000.0), reading("mem", 1000.0)), 1000.0))
    assert [] == problems(labeller)
    labeller.time += MISSED_CYCLES * INTERVAL + GRACE  # type: ignore[attr-defined]
    assert [] == problems(labeller)
    labeller.time += 1  # type: ignore[attr-defined]
    labeller._on_samples(SamplesRead((reading("cpu", 1036.0),), 1036.0))
    labeller._on_samples(SourceFailed("prometheus/x", "empty", 1036.0))
    assert ["rules: mem was last read 36 s ago, more than 30 s: see the log of its source"] == problems(labeller)


async def test_old_samples_are_no_reading(labeller: Process) -> None:
    """A Pushgateway serves its last value for ever: an old value keeps neither labels nor /status ok."""
    labeller.informers.last_heard = lambda kind: labeller.clock()  # type: ignore[method-assign]
    labeller.time = 2000.0  # type: ignore[attr-defined]
    labeller._on_samples(SamplesRead((reading("cpu", 1990.0), reading("mem", 1600.0)), 2000.0))
    assert ["rules: mem was last read 1000 s ago, more than 30 s: see the log of its source"] == problems(labeller)


@pytest.mark.parametrize("step", [-7200.0, 7200.0])
async def test_a_clock_that_is_set_makes_no_sample_old_nor_young(labeller: Process, step: float) -> None:
    """Samples have wall times: after a step a new sample counts, and an old one does not."""
    labeller.informers.last_heard = lambda kind: labeller.clock()  # type: ignore[method-assign]
    labeller.set_by, labeller.time = step, 2000.0  # type: ignore[attr-defined]
    wall = labeller.clock.wall()
    labeller._on_samples(SamplesRead((reading("cpu", wall - 10.0), reading("mem", wall - 400.0)), 2000.0))
    assert ["rules: mem was last read 1000 s ago, more than 30 s: see the log of its source"] == problems(labeller)


async def test_a_file_that_is_refused_gives_nobody_time(labeller: Process) -> None:
    """Nor does an equivalent file: a rule without samples is reported, however often the file is touched."""
    labeller.informers.last_heard = lambda kind: labeller.clock()  # type: ignore[method-assign]
    await write(labeller, TEXT % 70)
    labeller.time = 1036.0  # type: ignore[attr-defined]
    labeller._on_samples(SamplesRead((reading("cpu", 1036.0),), 1036.0))
    for content in ("# hello\n" + TEXT % 70, TEXT % "much"):
        reload = await write(labeller, content)
        assert ("much" in content) == ("'much' is not a number" in reload.error)
        expected = f"rules: mem was last read 36 s ago, more than 30 s: {reload.error or 'see the log of its source'}"
        assert [expected] == problems(labeller)


async def test_a_new_rule_has_its_time_to_be_read(labeller: Process) -> None:
    """/status does not fail because a rule was added an hour after the start."""
    labeller.informers.last_heard = lambda kind: labeller.clock()  # type: ignore[method-assign]
    await write(labeller, TEXT % 70)
    labeller.time = 5000.0  # type: ignore[attr-defined]
    labeller._on_samples(SamplesRead((reading("cpu", 5000.0), reading("mem", 5000.0)), 5000.0))
    await write(labeller, "Rulename: {cpu: {Promsql: a, Threshold: 70}, disk: {Promsql: c, Threshold: 1}}")
    assert [] == problems(labeller)
    labeller.time = 5000.0 + MISSED_CYCLES * INTERVAL + GRACE + 1  # type: ignore[attr-defined]
    labeller._on_samples(SamplesRead((reading("cpu", labeller.clock()),), labeller.clock()))
    assert ["rules: disk was last read 36 s ago, more than 30 s: see the log of its source"] == problems(labeller)


async def test_a_watch_that_fell_silent_is_told(labeller: Process) -> None:
    """Changes of nodes would be missed."""
    labeller._on_samples(SamplesRead((reading("cpu", 1000.0), reading("mem", 1000.0)), 1000.0))
    labeller.informers.last_heard = lambda kind: 870.0  # type: ignore[method-assign]
    assert ["watch: last seen 130.0 s ago, more than 120 s"] == problems(labeller)


async def write(labeller: Process, content: str) -> Reload:
    """Change the file, and check it twice."""
    assert labeller.reload is not None
    labeller.reload._file.path.write_text(content)
    await labeller.reload.check()
    await labeller.reload.check()
    return labeller.reload


async def test_changed_rules_are_taken_and_asked_for(labeller: Process) -> None:
    """The engine gets new rules, and an invalid file leaves the last valid one in force."""
    for content in (TEXT % 70, TEXT % 90, TEXT % "much"):
        reload = await write(labeller, content)
    marking = labeller.engine.controller(Labelling).labeller
    assert marking is not None
    assert [70.0, 90.0] == [rule.threshold for rule in marking.settings.rules]
    assert "'much' is not a number" in reload.error


async def test_other_queries_reach_the_source(labeller: Process) -> None:
    """A new rule is queried from the next poll on."""
    await write(labeller, "Rulename: {disk: {Promsql: c, Threshold: 1}}")
    (source,) = labeller.pollers.sources
    assert ["rule/disk"] == [query.name for query in source.queries]  # type: ignore[union-attr]


async def test_the_mode_is_settled_at_the_start(labeller: Process) -> None:
    """An observer has no lease: a change to `apply` is rejected until a restart."""
    assert labeller.reload is not None
    content = (TEXT % 90).encode()
    labeller.reload._apply(reader(apply=True)(content), content)
    assert "labels.mode: cannot change while running: restart to apply it" in labeller.reload.error
    assert 70.0 == labeller.current.settings.labels.rules[1].threshold  # type: ignore[union-attr]


async def test_it_knows_nodes_and_follows_nothing_else(labeller: Process) -> None:
    """It does not watch pods, and needs no permission for them."""
    labeller.runtime.dispatch(NodeUpserted(node("a"), 1000.0))
    assert ["a"] == [each.name for each in labeller.pollers._nodes()]
    assert (("/api/v1/nodes",), {"nodes"}) == (LABELLER.preflight_paths, {*labeller.informers.counts()})


async def test_every_node_marked_is_a_warning(labeller: Process, caplog: pytest.LogCaptureFixture) -> None:
    """Counted and logged."""
    labeller.recorder.all_under_pressure(30)
    assert "all eligible nodes are under pressure" in caplog.text and "nodes=30" in caplog.text


async def test_a_mark_that_somebody_undoes_is_a_warning(labeller: Process, caplog: pytest.LogCaptureFixture) -> None:
    """With the node, and a hint."""
    labeller.recorder.label_contested("node-3")
    assert "label contested: node=node-3 hint=another client keeps reverting it" in caplog.text

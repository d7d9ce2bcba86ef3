"""A configuration file that changes while the scheduler runs."""

import json
import logging
from dataclasses import replace
from pathlib import Path

import pytest

from tests.config.config_files import HEAD, TRIMTAB_HEAD, comparable
from trimtab.apps.config_file import ConfigFile, IncludedFiles
from trimtab.apps.logs import JsonFormatter
from trimtab.apps.reload import APPLIED, REJECTED, Reload
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import ConfigError, Problem
from trimtab.config.kube_scheduler import dump, parse
from trimtab.config.trimtab.settings import MetricsServerSettings, SourceSettings
from trimtab.core.model.events import Event, SettingsRead
from trimtab.sources.interface import SourceError

NAMED = HEAD + "profiles: [{schedulerName: %s}]\n"
SLOW = NAMED % "a" + "podMaxBackoffSeconds: 30\n"
MEASURED = f"{NAMED}---\n{TRIMTAB_HEAD}sources: [{{name: s, metricsServer: {{}}}}]\n"

POLICY = "apiVersion: scheduler.policy.crane.io/v1alpha1\nkind: DynamicSchedulerPolicy\n"
BY_PATH = HEAD + (
    "profiles:\n- schedulerName: a\n"
    "  plugins: {multiPoint: {enabled: [{name: Dynamic}]}}\n"
    "  pluginConfig: [{name: Dynamic, args: {policyConfigPath: crane.yaml}}]\n"
)


class ReloadHarness:
    """A file, whoever watches it, and what came of it."""

    def __init__(self, file: Path, content: str) -> None:
        self.file = file
        self.events: list[Event] = []
        self.sources: list[tuple[SourceSettings, ...]] = []
        self.reads = 0
        file.write_text(content)
        self.beside = IncludedFiles(file)
        watched = ConfigFile(file, self._read, self.beside)
        self.reload = Reload(watched, self._read(content.encode()), self.events.append, lambda: 7.0, self.handed)

    def _read(self, content: bytes) -> Configuration:
        self.reads += 1
        return parse(content, "f.yaml", read_file=self.beside)

    def handed(self, sources: tuple[SourceSettings, ...]) -> None:
        if any(each.name == "bad" for each in sources):
            raise SourceError("the address of source 'bad' is none", "write another")
        self.sources.append(sources)

    async def looks(self, times: int = 2) -> None:
        for _ in range(times):
            await self.reload.check()

    async def writes(self, content: str) -> None:
        """A new content, and as many looks as it takes to be taken."""
        self.file.write_text(content)
        await self.looks()

    @property
    def names(self) -> list[str]:
        """The first profile of each change that the engine was told."""
        return [event.settings.profiles[0].name for event in self.events if isinstance(event, SettingsRead)]


@pytest.fixture
async def stage(tmp_path: Path) -> ReloadHarness:
    made = ReloadHarness(tmp_path / "f.yaml", NAMED % "a")
    await made.looks()
    return made


async def test_a_good_file(stage: ReloadHarness) -> None:
    """A changed file reaches the engine as an event, once, and is in force."""
    await stage.writes(NAMED % "b")
    await stage.looks(3)
    assert (["b"], "b") == (stage.names, stage.reload.current.settings.profiles[0].name)
    assert 7.0 == stage.events[0].at


async def test_a_bad_file(stage: ReloadHarness, caplog: pytest.LogCaptureFixture) -> None:
    """A bad file keeps the last good one, and every problem is told once with its place."""
    await stage.writes(HEAD + "paralelism: 3\nprofiles: 5\n")
    await stage.looks(3)
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert ([], "a") == (stage.names, stage.reload.current.settings.profiles[0].name)
    assert 2 == len(told)
    assert told[0].endswith("error=f.yaml:3:1: paralelism: unknown field (did you mean parallelism?)")
    assert (1, "f.yaml:3:1: paralelism: unknown field (did you mean parallelism?)") == (
        stage.reload.counts[REJECTED],
        stage.reload.error,
    )


async def test_a_mended_file(stage: ReloadHarness) -> None:
    """A file that is mended, or put back as it was, has no problem any more."""
    await stage.writes("")
    assert "f.yaml: the file is empty" == stage.reload.error
    await stage.writes(NAMED % "b")
    assert ("", ["b"]) == (stage.reload.error, stage.names)
    await stage.writes("nonsense")
    await stage.writes(NAMED % "b")
    assert ("", ["b"]) == (stage.reload.error, stage.names)
    assert {REJECTED: 2, APPLIED: 1} == stage.reload.counts


async def test_a_file_that_is_being_written(stage: ReloadHarness) -> None:
    """What is seen only once is not taken, be it good or bad: it may be half of something."""
    stage.file.write_text(NAMED % "half")
    await stage.looks(1)
    stage.file.write_text(NAMED % "whole")
    await stage.looks(1)
    assert [] == stage.names
    await stage.looks(1)
    assert ["whole"] == stage.names


async def test_a_file_that_goes(stage: ReloadHarness) -> None:
    """A file that is taken away leaves the last good one in force; when it comes back it counts again."""
    stage.file.unlink()
    await stage.looks()
    assert ("cannot be read: No such file or directory", "a") == (
        stage.reload.error,
        stage.reload.current.settings.profiles[0].name,
    )
    await stage.writes(NAMED % "b")
    assert ("", ["b"]) == (stage.reload.error, stage.names)


async def test_a_config_map_that_swaps_its_links(tmp_path: Path) -> None:
    """The file behind a chain of links, as kubelet makes them, is followed when a link is swapped for another."""
    for version, name in (("one", "a"), ("two", "b")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "f.yaml").write_text(NAMED % name)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "f.yaml").symlink_to("..data/f.yaml")
    stage = ReloadHarness(tmp_path / "f.yaml", NAMED % "a")
    await stage.looks()
    (tmp_path / "..new").symlink_to("two")
    (tmp_path / "..new").replace(tmp_path / "..data")
    await stage.looks()
    assert ["b"] == stage.names


async def test_there_and_back(stage: ReloadHarness) -> None:
    """After a change and its reversal holds what held at first."""
    await stage.writes(SLOW)
    await stage.writes(NAMED % "a")
    assert 30.0 == stage.events[0].settings.max_backoff
    assert comparable(parse(NAMED % "a", "f.yaml")) == comparable(stage.reload.current)


async def test_a_change_before_the_first_look(tmp_path: Path) -> None:
    """What was written after the file was read and before anybody watched it is not missed."""
    stage = ReloadHarness(tmp_path / "f.yaml", NAMED % "a")
    await stage.writes(NAMED % "b")
    assert ["b"] == stage.names


async def test_a_comment(stage: ReloadHarness) -> None:
    """A file that reads differently and means the same disturbs nobody."""
    await stage.writes("# hello\n" + NAMED % "a")
    assert ([], []) == (stage.events, stage.sources)


async def test_sources(stage: ReloadHarness) -> None:
    """Changed sources are handed to whoever asks them, and only when they changed."""
    await stage.writes(MEASURED % "a")
    await stage.writes(MEASURED % "a" + "load: {freshFor: 1m}\n")
    assert [(MetricsServerSettings("s"),)] == stage.sources
    assert 60.0 == stage.events[-1].settings.load.fresh


async def test_a_source_that_cannot_be_opened(stage: ReloadHarness, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing of such a file counts, its profiles neither; the log and the problem say why, and mended it is taken."""
    await stage.writes((MEASURED % "b").replace("name: s", "name: bad"))
    problem = "the address of source 'bad' is none: write another"
    assert ([], [], problem) == (stage.names, stage.sources, stage.reload.error)
    assert ("a", ()) == (stage.reload.current.settings.profiles[0].name, stage.reload.current.trimtab.sources)
    assert f"the last valid one stays in force: file={stage.file} error={problem}" in caplog.text
    await stage.writes(MEASURED % "b")
    assert (["b"], [(MetricsServerSettings("s"),)], "") == (stage.names, stage.sources, stage.reload.error)
    assert {APPLIED: 1, REJECTED: 1} == stage.reload.counts


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("leaderElection: {leaderElect: false}\n", "leaderElection"),
        ("clientConnection: {qps: 5}\n", "clientConnection"),
        (f"---\n{TRIMTAB_HEAD}logging: {{level: debug}}\n", "logging"),
        (f"---\n{TRIMTAB_HEAD}metrics: {{nodeUsage: true}}\n", "metrics"),
    ],
)
async def test_what_needs_a_restart(
    stage: ReloadHarness, caplog: pytest.LogCaptureFixture, body: str, part: str
) -> None:
    """A change of what is looked at only at the start is told, and the rest of the file counts."""
    await stage.writes(NAMED % "b" + body)
    assert ["b"] == stage.names
    assert f"configuration change ignored until restart: file={stage.file} field={part}" in caplog.text
    told = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    assert [part] == [each["field"] for each in told if "field" in each]


async def test_new_kinds_of_objects(tmp_path: Path) -> None:
    """Plugins that look at kinds nobody follows would wait for ever: such a file needs a restart and is not taken."""
    bare = HEAD + "profiles: [{plugins: {multiPoint: {disabled: [{name: VolumeBinding}]}}}]\n"
    stage = ReloadHarness(tmp_path / "f.yaml", bare)
    await stage.looks()
    await stage.writes(NAMED % "a")
    missing = set(parse(NAMED % "a", "f").settings.kinds) - set(parse(bare, "f").settings.kinds)
    assert missing
    assert [] == stage.names
    assert all(kind in stage.reload.error for kind in missing)
    assert "restart" in stage.reload.error


async def test_a_reader_that_fails(stage: ReloadHarness) -> None:
    """Whatever a reader raises is told, and the last good one stays in force."""

    def fails(content: bytes) -> Configuration:
        raise RuntimeError("no idea")

    stage.reload._file = replace(stage.reload._file, read=fails)
    await stage.writes(NAMED % "b")
    assert ("RuntimeError: no idea", []) == (stage.reload.error, stage.names)


async def test_a_file_that_the_file_names(tmp_path: Path) -> None:
    """A policy that changes alone is taken; one that is no good is told once, and the last good one stays in force."""
    policy = tmp_path / "crane.yaml"
    written = POLICY + "spec: {predicate: [{name: cpu_usage_avg_5m, maxLimitPecent: %s}]}\n"
    policy.write_text(written % 0.5)
    stage = ReloadHarness(tmp_path / "f.yaml", BY_PATH)
    await stage.looks()
    policy.write_text(written % 0.6)
    await stage.looks(3)
    assert (1, 0) == (stage.reload.counts[APPLIED], stage.reload.counts[REJECTED])
    policy.unlink()
    await stage.looks(4)
    assert 1 == stage.reload.counts[REJECTED] and "No such file" in stage.reload.error
    policy.write_text(written % 0.7)
    await stage.looks(3)
    assert (2, 1, "") == (stage.reload.counts[APPLIED], stage.reload.counts[REJECTED], stage.reload.error)
    assert "maxLimitPecent: 0.7" in dump(stage.reload.current) and 2 == len(stage.events)


@pytest.mark.parametrize("content", ["profiles: [", None, NAMED % "a"])
async def test_a_change_of_both_is_looked_at_once(tmp_path: Path, content: str | None) -> None:
    """Where the file is no good, is gone, or names the policy no more, what became of that is not read again for ever."""
    policy = tmp_path / "crane.yaml"
    policy.write_text(POLICY + "spec: {}\n")
    stage = ReloadHarness(tmp_path / "f.yaml", BY_PATH)
    await stage.looks(3)
    policy.write_text(POLICY + "spec: {hotValue: []}\n")
    stage.file.unlink() if content is None else stage.file.write_text(content)
    await stage.looks(4)
    counts, reads = dict(stage.reload.counts), stage.reads
    policy.unlink()
    await stage.looks(6)
    assert int(content != NAMED % "a") == counts[REJECTED]
    assert (counts, reads) == (dict(stage.reload.counts), stage.reads)
    policy.write_text(POLICY + "spec: {predicate: [{name: cpu_usage_avg_5m, maxLimitPecent: 0.7}]}\n")
    await stage.writes(BY_PATH)
    await stage.looks(2)
    assert ("", "a") == (stage.reload.error, stage.reload.current.settings.profiles[0].name)
    assert "maxLimitPecent: 0.7" in dump(stage.reload.current)


async def test_queries_that_nobody_can_read(stage: ReloadHarness) -> None:
    """Where sources differ their questions are tried first; one that cannot be read keeps the last good file in force."""
    tried: list[str] = []

    async def examine(configuration: Configuration, file: Path) -> None:
        tried.append(configuration.settings.profiles[0].name)
        if len(tried) == 1:
            raise ConfigError([Problem(str(file), 3, 1, "query 'x'", "parse error")])

    stage.reload._validate = examine
    await stage.writes(NAMED % "b")
    await stage.writes(MEASURED % "c")
    assert (["c"], ["b"]) == (tried, stage.names) and "query 'x': parse error" in stage.reload.error
    await stage.writes(MEASURED % "d")
    assert (["b", "d"], "") == (stage.names, stage.reload.error)

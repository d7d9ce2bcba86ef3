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
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse
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
    """A file, its Reload, and the events and sources that it caused."""

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

    async def checks(self, times: int = 2) -> None:
        for _ in range(times):
            await self.reload.check()

    async def write(self, content: str) -> None:
        """A new content, and as many looks as it takes to be taken."""
        self.file.write_text(content)
        await self.checks()

    @property
    def names(self) -> list[str]:
        """The first profile of each change that the engine was told."""
        return [event.settings.profiles[0].name for event in self.events if isinstance(event, SettingsRead)]


@pytest.fixture
async def harness(tmp_path: Path) -> ReloadHarness:
    created = ReloadHarness(tmp_path / "f.yaml", NAMED % "a")
    await created.checks()
    return created


async def test_a_good_file(harness: ReloadHarness) -> None:
    """A changed file reaches the engine as an event, once, and is in force."""
    await harness.write(NAMED % "b")
    await harness.checks(3)
    assert (["b"], "b") == (harness.names, harness.reload.current.settings.profiles[0].name)
    assert 7.0 == harness.events[0].at


async def test_a_bad_file(harness: ReloadHarness, caplog: pytest.LogCaptureFixture) -> None:
    """An invalid file leaves the last valid one in force, and every problem is logged once with its position."""
    await harness.write(HEAD + "paralelism: 3\nprofiles: 5\n")
    await harness.checks(3)
    messages = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert ([], "a") == (harness.names, harness.reload.current.settings.profiles[0].name)
    assert 2 == len(messages)
    assert messages[0].endswith("error=f.yaml:3:1: paralelism: unknown field (did you mean parallelism?)")
    assert (1, "f.yaml:3:1: paralelism: unknown field (did you mean parallelism?)") == (
        harness.reload.counts[REJECTED],
        harness.reload.error,
    )


async def test_a_mended_file(harness: ReloadHarness) -> None:
    """A file that is corrected or reverted has no error any more."""
    await harness.write("")
    assert "f.yaml: the file is empty" == harness.reload.error
    await harness.write(NAMED % "b")
    assert ("", ["b"]) == (harness.reload.error, harness.names)
    await harness.write("nonsense")
    await harness.write(NAMED % "b")
    assert ("", ["b"]) == (harness.reload.error, harness.names)
    assert {REJECTED: 2, APPLIED: 1} == harness.reload.counts


async def test_a_file_that_is_being_written(harness: ReloadHarness) -> None:
    """Content seen only once is not evaluated: it may be half written."""
    harness.file.write_text(NAMED % "half")
    await harness.checks(1)
    harness.file.write_text(NAMED % "whole")
    await harness.checks(1)
    assert [] == harness.names
    await harness.checks(1)
    assert ["whole"] == harness.names


async def test_a_file_that_goes(harness: ReloadHarness) -> None:
    """Without the file the last valid one stays in force; when it is back it is applied."""
    harness.file.unlink()
    await harness.checks()
    assert ("cannot be read: No such file or directory", "a") == (
        harness.reload.error,
        harness.reload.current.settings.profiles[0].name,
    )
    await harness.write(NAMED % "b")
    assert ("", ["b"]) == (harness.reload.error, harness.names)


async def test_a_config_map_that_swaps_its_links(tmp_path: Path) -> None:
    """A file behind a chain of links, as the kubelet makes them, is reloaded when a link is swapped."""
    for version, name in (("one", "a"), ("two", "b")):
        (tmp_path / version).mkdir()
        (tmp_path / version / "f.yaml").write_text(NAMED % name)
    (tmp_path / "..data").symlink_to("one")
    (tmp_path / "f.yaml").symlink_to("..data/f.yaml")
    harness = ReloadHarness(tmp_path / "f.yaml", NAMED % "a")
    await harness.checks()
    (tmp_path / "..new").symlink_to("two")
    (tmp_path / "..new").replace(tmp_path / "..data")
    await harness.checks()
    assert ["b"] == harness.names


async def test_there_and_back(harness: ReloadHarness) -> None:
    """A change and its reversal give the first configuration."""
    await harness.write(SLOW)
    await harness.write(NAMED % "a")
    assert 30.0 == harness.events[0].settings.max_backoff
    assert comparable(parse(NAMED % "a", "f.yaml")) == comparable(harness.reload.current)


async def test_a_change_before_the_first_look(tmp_path: Path) -> None:
    """A change between the first read and the first check is not missed."""
    harness = ReloadHarness(tmp_path / "f.yaml", NAMED % "a")
    await harness.write(NAMED % "b")
    assert ["b"] == harness.names


async def test_a_comment(harness: ReloadHarness) -> None:
    """An equivalent file changes nothing."""
    await harness.write("# hello\n" + NAMED % "a")
    assert ([], []) == (harness.events, harness.sources)


async def test_sources(harness: ReloadHarness) -> None:
    """Sources are handed on only when they changed."""
    await harness.write(MEASURED % "a")
    await harness.write(MEASURED % "a" + "load: {freshFor: 1m}\n")
    assert [(MetricsServerSettings("s"),)] == harness.sources
    assert 60.0 == harness.events[-1].settings.load.fresh


async def test_a_source_that_cannot_be_opened(harness: ReloadHarness, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing of such a file is applied; the log and the error say why, and a corrected file is applied."""
    await harness.write((MEASURED % "b").replace("name: s", "name: bad"))
    problem = "the address of source 'bad' is none: write another"
    assert ([], [], problem) == (harness.names, harness.sources, harness.reload.error)
    assert ("a", ()) == (harness.reload.current.settings.profiles[0].name, harness.reload.current.trimtab.sources)
    assert f"the last valid one stays in force: file={harness.file} error={problem}" in caplog.text
    await harness.write(MEASURED % "b")
    assert (["b"], [(MetricsServerSettings("s"),)], "") == (harness.names, harness.sources, harness.reload.error)
    assert {APPLIED: 1, REJECTED: 1} == harness.reload.counts


@pytest.mark.parametrize(
    ("body", "part"),
    [
        ("leaderElection: {leaderElect: false}\n", "leaderElection"),
        ("clientConnection: {qps: 5}\n", "clientConnection"),
        (f"---\n{TRIMTAB_HEAD}logging: {{format: json}}\n", "logging.format"),
        (f"---\n{TRIMTAB_HEAD}metrics: {{nodeUsage: true}}\n", "metrics"),
    ],
)
async def test_what_needs_a_restart(
    harness: ReloadHarness, caplog: pytest.LogCaptureFixture, body: str, part: str
) -> None:
    """A change of fields that are read only at the start is logged, and the rest of the file is applied."""
    await harness.write(NAMED % "b" + body)
    assert ["b"] == harness.names
    assert f"configuration change ignored until restart: file={harness.file} field={part}" in caplog.text
    messages = [json.loads(JsonFormatter().format(record)) for record in caplog.records]
    assert [part] == [each["field"] for each in messages if "field" in each]


async def test_new_kinds_of_objects(tmp_path: Path) -> None:
    """Plugins that need kinds without an informer would wait for ever: such a file is rejected until a restart."""
    bare = HEAD + "profiles: [{plugins: {multiPoint: {disabled: [{name: VolumeBinding}]}}}]\n"
    harness = ReloadHarness(tmp_path / "f.yaml", bare)
    await harness.checks()
    await harness.write(NAMED % "a")
    missing = set(parse(NAMED % "a", "f").settings.kinds) - set(parse(bare, "f").settings.kinds)
    assert missing
    assert [] == harness.names
    assert all(kind in harness.reload.error for kind in missing)
    assert "restart" in harness.reload.error


async def test_a_reader_that_fails(harness: ReloadHarness) -> None:
    """Any exception of the parser is logged, and the last valid file stays in force."""

    def fails(content: bytes) -> Configuration:
        raise RuntimeError("no idea")

    harness.reload._file = replace(harness.reload._file, read=fails)
    await harness.write(NAMED % "b")
    assert ("RuntimeError: no idea", []) == (harness.reload.error, harness.names)


async def test_a_file_that_the_file_names(tmp_path: Path) -> None:
    """A policy that changes alone is applied; an invalid one is logged once, and the last valid one stays in force."""
    policy = tmp_path / "crane.yaml"
    written = POLICY + "spec: {predicate: [{name: cpu_usage_avg_5m, maxLimitPecent: %s}]}\n"
    policy.write_text(written % 0.5)
    harness = ReloadHarness(tmp_path / "f.yaml", BY_PATH)
    await harness.checks()
    policy.write_text(written % 0.6)
    await harness.checks(3)
    assert (1, 0) == (harness.reload.counts[APPLIED], harness.reload.counts[REJECTED])
    policy.unlink()
    await harness.checks(4)
    assert 1 == harness.reload.counts[REJECTED] and "No such file" in harness.reload.error
    policy.write_text(written % 0.7)
    await harness.checks(3)
    assert (2, 1, "") == (harness.reload.counts[APPLIED], harness.reload.counts[REJECTED], harness.reload.error)
    assert "maxLimitPecent: 0.7" in dump(harness.reload.current) and 2 == len(harness.events)


@pytest.mark.parametrize("content", ["profiles: [", None, NAMED % "a"])
async def test_a_change_of_both_is_looked_at_once(tmp_path: Path, content: str | None) -> None:
    """If the file is invalid, gone, or no longer includes the policy, the policy is not read for ever."""
    policy = tmp_path / "crane.yaml"
    policy.write_text(POLICY + "spec: {}\n")
    harness = ReloadHarness(tmp_path / "f.yaml", BY_PATH)
    await harness.checks(3)
    policy.write_text(POLICY + "spec: {hotValue: []}\n")
    harness.file.unlink() if content is None else harness.file.write_text(content)
    await harness.checks(4)
    counts, reads = dict(harness.reload.counts), harness.reads
    policy.unlink()
    await harness.checks(6)
    assert int(content != NAMED % "a") == counts[REJECTED]
    assert (counts, reads) == (dict(harness.reload.counts), harness.reads)
    policy.write_text(POLICY + "spec: {predicate: [{name: cpu_usage_avg_5m, maxLimitPecent: 0.7}]}\n")
    await harness.write(BY_PATH)
    await harness.checks(2)
    assert ("", "a") == (harness.reload.error, harness.reload.current.settings.profiles[0].name)
    assert "maxLimitPecent: 0.7" in dump(harness.reload.current)


async def test_queries_that_nobody_can_read(harness: ReloadHarness) -> None:
    """Queries of changed sources are validated first; an invalid one leaves the last valid file in force."""
    tried: list[str] = []

    async def examine(configuration: Configuration, file: Path) -> None:
        tried.append(configuration.settings.profiles[0].name)
        if len(tried) == 1:
            raise ConfigError([Problem(str(file), 3, 1, "query 'x'", "parse error")])

    harness.reload._validate = examine
    await harness.write(NAMED % "b")
    await harness.write(MEASURED % "c")
    assert (["c"], ["b"]) == (tried, harness.names) and "query 'x': parse error" in harness.reload.error
    await harness.write(MEASURED % "d")
    assert (["b", "d"], "") == (harness.names, harness.reload.error)


async def test_the_log_level_changes_without_a_restart(
    harness: ReloadHarness, caplog: pytest.LogCaptureFixture
) -> None:
    """Level and lines about decisions follow the file, and no warning says that they are ignored."""
    root, decisions = logging.getLogger(), logging.getLogger("trimtab.decisions")
    before = root.level, decisions.level
    try:
        await harness.write(f"{NAMED % 'a'}---\n{TRIMTAB_HEAD}logging: {{level: debug, decisions: false}}\n")
        assert (logging.DEBUG, False) == (root.level, decisions.isEnabledFor(logging.INFO))
        await harness.write(f"{NAMED % 'a'}---\n{TRIMTAB_HEAD}logging: {{level: warning}}\n")
        assert (logging.WARNING, False) == (root.level, decisions.isEnabledFor(logging.INFO))
        await harness.write(NAMED % "a")
        assert (logging.INFO, True) == (root.level, decisions.isEnabledFor(logging.INFO))
    finally:
        root.setLevel(before[0])
        decisions.setLevel(before[1])
    assert "ignored until restart" not in caplog.text

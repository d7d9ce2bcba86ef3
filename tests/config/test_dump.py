"""A dumped configuration means the same as the file it came from."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
import yaml

from tests.config.config_files import FILE, FULL, HEAD, TRIMTAB_FULL, TRIMTAB_HEAD, comparable
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import default_configuration, parse
from trimtab.config.registry import DEFAULT_PLUGINS, IN_TREE
from trimtab.config.schema import dump_fields, fields_of
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import FilterStatus, Reject
from trimtab.core.model.change import Change
from trimtab.core.model.pod import Pod
from trimtab.core.model.setting import Support

ODD_TIMES = HEAD + "leaderElection: {leaseDuration: 100h, renewDeadline: 2.0000001s, retryPeriod: 1.1ms}\n"
OFF = HEAD + "leaderElection: {leaderElect: false}\nprofiles: [{schedulerName: 'ä: #'}]\n"


@pytest.mark.parametrize(
    "content", [HEAD, FULL, ODD_TIMES, OFF, TRIMTAB_HEAD, TRIMTAB_FULL, f"{TRIMTAB_FULL}---\n{FULL}"]
)
def test_shown_means_the_same(content: str) -> None:
    """The dumped configuration parses as itself, without notes."""
    configuration = parse(content, FILE)
    again = parse(dump(configuration), FILE)
    assert comparable(configuration) == comparable(again)
    assert () == again.notes


def test_without_a_file() -> None:
    """The configuration without a file can be dumped and parsed again."""
    assert comparable(default_configuration()) == comparable(parse(dump(default_configuration()), FILE))


def test_every_argument_with_an_effect_is_shown() -> None:
    """Each default plugin is dumped with all arguments that have an effect."""
    for name in (name for name in DEFAULT_PLUGINS if name in IN_TREE):
        ignored = {each.key for each in fields_of(IN_TREE[name]) if each.setting.support is not Support.SUPPORTED}
        expected = {key: value for key, value in dump_fields(IN_TREE[name]()).items() if key not in ignored}
        (profile,) = next(yaml.safe_load_all(dump(default_configuration())))["profiles"]
        found = {each["name"]: each["args"] for each in profile["pluginConfig"]}
        assert expected == found.get(name, {})


def test_notes_are_comments() -> None:
    """Notes are comments above the dumped file, one line each."""
    configuration = parse(HEAD + "parallelism: 3\npercentageOfNodesToScore: 5\n", FILE)
    comments = [line for line in dump(configuration).splitlines() if line.startswith("#")]
    *notes, readers = comments
    assert [f"# {note}" for note in configuration.notes] == notes
    assert 2 <= len(notes)
    assert "# For Trimtab and kube-scheduler, which reads the first document only." == readers


def test_plugins_that_kube_scheduler_lacks() -> None:
    """A comment names the plugins because of which kube-scheduler itself refuses the file."""
    content = f"{HEAD}profiles: [{{plugins: {{score: {{enabled: [{{name: PeakRisk}}]}}}}}}]\n"
    assert "# For Trimtab: kube-scheduler itself has no PeakRisk.\n" in dump(parse(content, FILE))


@dataclass(frozen=True, slots=True)
class Evictor:
    """A plugin of another package that serves postFilter alone."""

    name: ClassVar[str] = "Evictor"
    requeue_on: ClassVar[Change] = Change.NOTHING

    at_most: int = 3

    def post_filter(self, view: View, pod: Pod, status: FilterStatus) -> Reject:
        return Reject("")


def test_arguments_of_post_filter_plugins_are_dumped() -> None:
    """A plugin that only serves postFilter keeps its arguments."""
    plugins = "{postFilter: {enabled: [{name: Evictor}]}}"
    content = f"{HEAD}profiles: [{{plugins: {plugins}, pluginConfig: [{{name: Evictor, args: {{atMost: 7}}}}]}}]\n"
    assert "atMost: 7" in dump(parse(content, FILE, {"Evictor": Evictor}))

"""Proves that what is shown of a configuration means the same as the file it came from."""

import pytest
import yaml

from tests.config.files import FILE, FULL, HEAD, OWN_FULL, OWN_HEAD, outcome
from trimtab.config.arguments import written_arguments
from trimtab.config.fields import is_ignored, names
from trimtab.config.registry import DEFAULT_PLUGINS, IN_TREE
from trimtab.config.scheduler import default_configuration, read
from trimtab.config.show import shown

ODD_TIMES = HEAD + "leaderElection: {leaseDuration: 100h, renewDeadline: 2.0000001s, retryPeriod: 1.1ms}\n"
OFF = HEAD + "leaderElection: {leaderElect: false}\nprofiles: [{schedulerName: 'ä: #'}]\n"


@pytest.mark.parametrize("content", [HEAD, FULL, ODD_TIMES, OFF, OWN_HEAD, OWN_FULL, f"{OWN_FULL}---\n{FULL}"])
def test_shown_means_the_same(content: str) -> None:
    """The effective configuration reads back as itself, with nothing left to note about defaults."""
    configuration = read(content, FILE)
    again = read(shown(configuration), FILE)
    assert outcome(configuration) == outcome(again)
    assert () == again.notes


def test_without_a_file() -> None:
    """What holds without a file can be shown, and kept as a file."""
    assert outcome(default_configuration()) == outcome(read(shown(default_configuration()), FILE))


def test_every_argument_is_shown() -> None:
    """Each default plugin that takes arguments is shown with those that count, whatever point it serves."""
    for name in (name for name in DEFAULT_PLUGINS if name in IN_TREE):
        heeded = {key for key, field in names(f"{name}Args").items() if not is_ignored(field)}
        expected = {key: value for key, value in written_arguments(IN_TREE[name]()).items() if key in heeded}
        (profile,) = next(yaml.safe_load_all(shown(default_configuration())))["profiles"]
        found = {each["name"]: each["args"] for each in profile["pluginConfig"]}
        assert expected == found.get(name, {})


def test_notes_are_comments() -> None:
    """Notes stand above the shown file, one comment a note."""
    configuration = read(HEAD + "parallelism: 3\npercentageOfNodesToScore: 5\n", FILE)
    comments = [line for line in shown(configuration).splitlines() if line.startswith("#")]
    assert [f"# {note}" for note in configuration.notes] == comments
    assert 2 <= len(comments)

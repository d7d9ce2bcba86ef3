"""A file written for Rescheduler works as it stands: its source, its switches, and every mistake at its own place."""

from __future__ import annotations

import pytest

from tests.config.config_files import HEAD, parse_body, problems_of_body
from trimtab.config.diagnostics import Info
from trimtab.config.trimtab.settings import MetricsServerSettings

PROFILE = """\
profiles:
- schedulerName: rescheduler-scheduler
  plugins:
    filter: {{enabled: [name: Rescheduler]}}
    score: {{enabled: [name: Rescheduler]}}
  pluginConfig:
  - name: Rescheduler
    args:
{arguments}
"""


def with_arguments(*lines: str) -> str:
    return PROFILE.format(arguments="\n".join(f"      {line}" for line in lines))


def test_metrics_server_is_implied() -> None:
    """With no source in the file its measurements come from metrics-server, and a note says so and what else counts."""
    configuration = parse_body(with_arguments("cpuThreshold: 80.0"))
    (source,) = configuration.trimtab.sources
    assert isinstance(source, MetricsServerSettings)
    (note,) = [note for note in configuration.notes if "names no source" in note.message]
    assert isinstance(note, Info)
    assert "Rescheduler reads metrics-server" in note.message
    assert "nodes without data are compared by requests" in note.message


def test_another_source_goes_before_it() -> None:
    """A file with a source has that one alone, and no such note; with `strict` requests count, so there is none."""
    source = "---\napiVersion: trimtab.dev/v1alpha1\nkind: TrimtabConfiguration\nsources: [{name: p, prometheus: {url: 'http://p:9090'}}]\n"
    configuration = parse_body(with_arguments("cpuThreshold: 80") + source)
    assert ["p"] == [each.name for each in configuration.trimtab.sources]
    assert () == parse_body(with_arguments("strict: true")).trimtab.sources


@pytest.mark.parametrize(
    "off", ['reschedulingInterval: "0s"', "enableReschedulingController: false", "enabledStrategies: []"]
)
def test_rescheduling_that_is_off(off: str) -> None:
    """Switching the moves off is no mistake, and needs no note: there are none."""
    notes = [note.message for note in parse_body(with_arguments(off)).notes]
    assert not any("rescheduling running pods" in note for note in notes)


def test_rescheduling_that_is_on() -> None:
    """An argument that asks for moves is noted, each at its own place."""
    notes = parse_body(with_arguments("enableReschedulingController: true", 'reschedulingInterval: "30s"')).notes
    moves = [note for note in notes if "rescheduling running pods is not supported yet" in note.message]
    lines = len(HEAD.splitlines()) + len(with_arguments().splitlines())
    assert [lines, lines + 1] == [note.line for note in moves]


def test_every_mistake_at_its_own_place() -> None:
    """All values out of range are reported at once, with file, line and column of each, whatever else is wrong."""
    wrong = {
        "cpuThreshold: 180": "180 is not above 0 and at most 100",
        "memoryThreshold: 0": "0 is not above 0 and at most 100",
        "cpuScoreWeight: 7": "7 is not between 0 and 1",
        "loadBalanceBonus: -3": "-3 is not between 0 and 50",
        'reschedulingInterval: "-1s"': "-1 must be 0 or more",
        "maxReschedulePods: 0": "0 must be 1 or more",
        "memoryScoreWeight: much": "expected a number, got the string 'much'",
    }
    lines = len(HEAD.splitlines()) + len(with_arguments().splitlines())
    expected = []
    for number, (line, words) in enumerate(wrong.items()):
        key = line.split(":")[0]
        place = f"f.yaml:{lines + number}:{6 + len(key) + 3}"
        expected.append(f"{place}: profiles[0].pluginConfig[0].args.{key}: {words}")
    assert expected == problems_of_body(with_arguments(*wrong))


def test_lists_name_the_item() -> None:
    """An empty namespace and an unknown strategy are reported at the item."""
    namespace, strategy = problems_of_body(
        with_arguments('excludedNamespaces: [a, ""]', "enabledStrategies: [LoadBalancing, Magic]")
    )
    assert "excludedNamespaces[1]: a namespace must not be empty" in namespace
    assert "enabledStrategies[1]: 'Magic' is not one of LoadBalancing" in strategy

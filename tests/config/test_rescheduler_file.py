"""A file written for Rescheduler works as it stands: its source, its switches, its moves, every mistake at its own place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.config.config_files import FILE, HEAD, parse_body, problems_of_body
from trimtab.config.diagnostics import Info
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse
from trimtab.config.trimtab.settings import MetricsServerSettings
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.rescheduling.settings import Mode, ReschedulingSettings
from trimtab.core.rescheduling.strategies.load_balancing import LoadBalancing
from trimtab.core.rescheduling.strategies.node_maintenance import NodeMaintenance
from trimtab.core.rescheduling.strategies.resource_optimization import ResourceOptimization

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


SWITCH = "enableReschedulingController: true"
ALL_THREE = (LoadBalancing(), ResourceOptimization(), NodeMaintenance())
FIRST_LINE = len(HEAD.splitlines()) + len(with_arguments().splitlines())  # of the arguments
OWN_SECTION = "---\napiVersion: trimtab.dev/v1alpha1\nkind: TrimtabConfiguration\nrescheduling: {{{}}}\n"


def settings_of(*lines: str) -> ReschedulingSettings | None:
    configuration = parse_body(with_arguments(*lines))
    assert configuration.settings.rescheduling == configuration.trimtab.rescheduling
    return configuration.settings.rescheduling


def notes_on_moves(*lines: str, section: str = "") -> list[tuple[int, str]]:
    """Line of the argument and message of each note on moves."""
    own = OWN_SECTION.format(section) if section else ""
    notes = parse_body(with_arguments(*lines) + own).notes
    words = ("moves are", "counts")
    return [(each.line - FIRST_LINE, each.message) for each in notes if any(word in each.message for word in words)]


@pytest.mark.parametrize(
    "off", ['reschedulingInterval: "0s"', "enableReschedulingController: false", "enabledStrategies: []"]
)
@pytest.mark.parametrize("more", [(), (SWITCH,)])
def test_rescheduling_that_is_off(off: str, more: tuple[str, ...]) -> None:
    """Switching the moves off is no mistake, and needs no note: there are none."""
    lines = [off] if off.split(":")[0] in SWITCH else [*more, off]
    assert (None, []) == (settings_of(*lines), notes_on_moves(*lines))


@pytest.mark.parametrize(
    "lines", [(), ("cpuThreshold: 70",), ('reschedulingInterval: "30s"', "excludedNamespaces: [a]")]
)
def test_nothing_is_planned_by_a_default(lines: tuple[str, ...]) -> None:
    """The switch must be written: an upgrade plans nothing and watches no further kinds. A note says so, if it matters."""
    configuration = parse_body(with_arguments(*lines))
    assert configuration.settings.rescheduling is None
    assert "statefulsets" not in {*replace(configuration.settings, profiles=()).kinds}
    message = "no moves are planned: write enableReschedulingController: true beside it to have them planned and logged"
    assert ([(0, message)] if len(lines) > 1 else []) == notes_on_moves(*lines)


def test_moves_are_planned_where_the_switch_is_written() -> None:
    """With the defaults of the arguments, in observe mode, and a note says what to write for more."""
    found = settings_of(SWITCH)
    assert found is not None
    assert (Mode.OBSERVE, 30.0, {"cpu": 0.8, "memory": 0.8}, 10) == (
        *(found.mode, found.interval, found.limits),
        found.max_moves,
    )
    assert (("kube-system",), None, ALL_THREE) == (
        *(found.excluded_namespaces, found.excluded_pod_selector),
        found.strategies,
    )
    ((line, message),) = notes_on_moves(SWITCH)
    assert line == 0
    assert message.startswith("moves are only planned, every 30s, and logged: to carry them out, write a section resch")
    assert message.endswith("and run with --controllers scheduler,rescheduler")


@pytest.mark.parametrize(
    ("argument", "field", "expected"),
    [
        ("reschedulingInterval: 90s", "interval", 90.0),
        ("reschedulingInterval: 2h", "cooldown", 7200.0),
        ("cpuThreshold: 95", "limits", {"cpu": 0.95, "memory": 0.8}),
        ("memoryThreshold: 75.5", "limits", {"cpu": 0.8, "memory": 0.755}),
        ("maxReschedulePods: 3", "max_moves", 3),
        ("excludedNamespaces: [a, b, a]", "excluded_namespaces", ("a", "b")),
        ("excludedNamespaces: []", "excluded_namespaces", ("kube-system",)),
        ("enabledStrategies: [NodeMaintenance]", "strategies", (NodeMaintenance(),)),
        ("imbalanceThreshold: 40", "strategies", (LoadBalancing(40.0), *ALL_THREE[1:])),
        (
            "excludedPodSelector: tier=critical,tenant.io/protected=true",
            "excluded_pod_selector",
            LabelSelector((("tier", "critical"), ("tenant.io/protected", "true"))),
        ),
    ],
)
def test_every_argument_takes_effect(argument: str, field: str, expected: object) -> None:
    """It becomes a field of the rescheduler's settings; `config show` prints it there, and its output means the same."""
    assert expected == getattr(settings_of(SWITCH, argument), field)
    configuration = parse_body(with_arguments(SWITCH, argument))
    again = parse(dump(configuration), FILE)
    assert configuration.settings.rescheduling == again.settings.rescheduling
    assert not [note for note in again.notes if "moves are" in note.message or "counts" in note.message]


@pytest.mark.parametrize(
    ("argument", "field", "expected", "shown"),
    [
        ("reschedulingInterval: 5s", "interval", 10.0, "10s"),
        ("reschedulingInterval: 48h", "interval", 86400.0, "24h"),
        ("maxReschedulePods: 5000", "max_moves", 1000, "1000"),
    ],
)
def test_beyond_the_rescheduler_s_range(argument: str, field: str, expected: float, shown: str) -> None:
    """The nearest value counts, and a note at the argument says which."""
    assert expected == getattr(settings_of(SWITCH, argument), field)
    assert (1, f"{shown} counts instead, the nearest value that the rescheduler takes") in notes_on_moves(
        SWITCH, argument
    )


@pytest.mark.parametrize(
    ("lines", "section", "noted"),
    [
        ((SWITCH,), "interval: 1h", []),
        ((SWITCH, "reschedulingInterval: 1h"), "interval: 1h", []),
        ((SWITCH, "reschedulingInterval: 30s"), "interval: 1h", [(1, "interval")]),
        ((SWITCH, "cpuThreshold: 70", "maxReschedulePods: 3"), "interval: 1h", [(1, "limits, maxMoves")]),
        (("cpuThreshold: 70",), "interval: 1h", []),
        (("imbalanceThreshold: 30",), "interval: 1h", [(0, "strategies")]),
        (("excludedNamespaces: [a, b]",), "excludedNamespaces: [b, a]", []),
        (("enableReschedulingController: false",), "interval: 1h", [(0, "")]),
    ],
)
def test_a_section_of_its_own_wins(lines: tuple[str, ...], section: str, noted: list[tuple[int, str]]) -> None:
    """Whatever the arguments say; where they say something else, a note names the fields."""
    configuration = parse_body(with_arguments(*lines) + OWN_SECTION.format(section))
    assert parse(OWN_SECTION.format(section)[4:], FILE).settings.rescheduling == configuration.settings.rescheduling
    expected = [
        (line, f"the section rescheduling counts, and {f'differs in {fields}' if fields else 'plans moves'}")
        for line, fields in noted
    ]
    assert expected == notes_on_moves(*lines, section=section)


def test_nothing_is_planned_where_nothing_is_measured() -> None:
    """`strict` names no source, and a plan without measurements would refuse every move."""
    assert settings_of(SWITCH, "strict: true") is None
    ((line, message),) = notes_on_moves(SWITCH, "strict: true")
    assert (0, True) == (line, message.startswith("no moves are planned, because nothing is measured"))


def test_one_rescheduler_for_all_profiles() -> None:
    """The first profile's arguments count, and a note is at others that differ."""
    first, other = with_arguments(SWITCH), with_arguments(SWITCH, "reschedulingInterval: 60s")
    second = other.removeprefix("profiles:\n").replace("rescheduler-scheduler", "second")
    configuration = parse_body(first + second)
    assert settings_of(SWITCH) == configuration.settings.rescheduling
    notes = [each.message for each in configuration.notes if "one rescheduler" in each.message]
    assert ["there is one rescheduler for all profiles, and the arguments of an earlier profile count"] == notes
    same = with_arguments(SWITCH).removeprefix("profiles:\n").replace("rescheduler-scheduler", "second")
    assert not [each for each in parse_body(first + same).notes if "one rescheduler" in each.message]


def test_a_plugin_that_is_not_enabled_plans_nothing() -> None:
    """Its arguments are validated, and nothing else."""
    configuration = parse_body(f"profiles: [{{pluginConfig: [{{name: Rescheduler, args: {{{SWITCH}}}}}]}}]\n")
    assert configuration.settings.rescheduling is None


def test_every_mistake_at_its_own_place() -> None:
    """All values out of range are reported at once, with file, line and column of each, whatever else is wrong."""
    wrong = {
        "cpuThreshold: 180": "180 is not above 0 and at most 100",
        "memoryThreshold: 0": "0 is not above 0 and at most 100",
        "cpuScoreWeight: 7": "7 is not between 0 and 1",
        "loadBalanceBonus: -3": "-3 is not between 0 and 50",
        'reschedulingInterval: "-1s"': "-1 must be 0 or more",
        "maxReschedulePods: 0": "0 must be 1 or more",
        "excludedPodSelector: tier critical": "'tier critical' is not a selector: write labels such as `key=value`, with "
        "commas between them",
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

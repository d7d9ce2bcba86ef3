"""The field `rescheduling`: how it is parsed, what is rejected and where, how it is dumped, and what it makes watched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, cast

import pytest

from tests.config.config_files import FILE, TRIMTAB_HEAD, problems_of
from trimtab.apps.controller_configuration import configuration_for
from trimtab.apps.watched_kinds import extra_watched_kinds
from trimtab.config.diagnostics import ConfigError
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import default_configuration, parse
from trimtab.config.trimtab.rescheduling import Installed
from trimtab.core.framework.profile import build_profile
from trimtab.core.model.selectors import LabelSelector, Requirement
from trimtab.core.model.setting import setting
from trimtab.core.rescheduling.forecast import BySnapshots, Forecaster, Seasonal
from trimtab.core.rescheduling.move_budgets import DEFAULT_BUDGETS, Budget, Scope
from trimtab.core.rescheduling.rivals.koordinator_low_node_load import KoordinatorLowNodeLoad
from trimtab.core.rescheduling.rivals.thresholds import Thresholds
from trimtab.core.rescheduling.settings import GUARDED_KINDS, Method, Mode, ReschedulingSettings
from trimtab.core.rescheduling.strategies.registry import STRATEGIES
from trimtab.core.rescheduling.strategies.resource_optimization import ResourceOptimization
from trimtab.core.settings import Settings
from trimtab.kube.kinds import IfForbidden

FULL = """\
rescheduling:
  mode: auto
  interval: 1m
  limits: {cpu: 70.5}
  eagerness: calm
  strategies: [ResourceOptimization]
  method: eviction
  budgets: {node: {moves: 2, within: 10m}}
  maxInProgress: 4
  maxMoves: 3
  cooldown: 1h
  minPodAge: 10m
  excludedNamespaces: [payments]
  excludedPodSelector:
    matchLabels: {app: db}
    matchExpressions: [{key: tier, operator: In, values: [gold]}]
"""


def settings_of(section: str) -> ReschedulingSettings:
    found = parse(f"{TRIMTAB_HEAD}{section}", FILE).settings.rescheduling
    assert found is not None
    return found


def test_nothing_is_rescheduled_without_it() -> None:
    """A file without the section has no settings of a rescheduler, and needs no kinds for one."""
    assert parse(TRIMTAB_HEAD, FILE).settings.rescheduling is None


def test_defaults() -> None:
    """An empty section observes, with the documented defaults."""
    found = settings_of("rescheduling: {}\n")
    assert ReschedulingSettings() == found
    assert (Mode.OBSERVE, 300.0, 32.0, {"cpu": 0.8, "memory": 0.9}) == (
        *(found.mode, found.interval, found.required_gain),
        found.limits,
    )


def test_every_field() -> None:
    """All of them; a limit that is left out keeps its default."""
    selector = LabelSelector((("app", "db"),), (Requirement("tier", "In", ("gold",)),))
    expected = ReschedulingSettings(
        *(Mode.AUTO, 60.0, {"cpu": 0.705, "memory": 0.9}, 64.0, (ResourceOptimization(),), Method.EVICTION),
        *({**DEFAULT_BUDGETS, Scope.NODE: Budget(2, 600.0)}, 4, 3, 3600.0, 600.0, ("payments",), selector),
    )
    assert expected == settings_of(FULL)


@pytest.mark.parametrize("section", [FULL, "rescheduling: {}\n"])
def test_dump(section: str) -> None:
    """What `config show` prints is the same configuration."""
    shown = dump(parse(f"{TRIMTAB_HEAD}{section}", FILE))
    assert settings_of(section) == parse(shown, FILE).settings.rescheduling


def test_a_cooldown_follows_a_long_interval() -> None:
    """Unless it is set."""
    assert 7200.0 == settings_of("rescheduling: {interval: 2h}\n").cooldown


def test_forecasters() -> None:
    """By their names, and dumped so; further ones are those that the caller knows, and may refuse to be created."""
    seasonal = "rescheduling: {forecast: seasonal}\n"
    assert (BySnapshots(), Seasonal()) == (
        settings_of("rescheduling: {}\n").forecaster,
        settings_of(seasonal).forecaster,
    )
    assert settings_of(seasonal) == parse(dump(parse(TRIMTAB_HEAD + seasonal, FILE)), FILE).settings.rescheduling

    def broken() -> Forecaster:
        raise ValueError("its library is missing: install it")

    installed = Installed(forecasters={"late": cast("type[Forecaster]", broken)})
    with pytest.raises(ConfigError, match=r"rescheduling.forecast: its library is missing: install it"):
        parse(f"{TRIMTAB_HEAD}rescheduling: {{forecast: late}}\n", FILE, installed=installed)


@dataclass(frozen=True, slots=True)
class Drowsy(ResourceOptimization):
    """A strategy with an argument."""

    name: ClassVar[str] = "Drowsy"
    hours: int = setting(8, "how long", between=(1, 24))


def test_arguments_of_a_strategy(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are parsed as those of a plugin, and dumped."""
    monkeypatch.setitem(STRATEGIES, "Drowsy", Drowsy)
    section = "rescheduling: {strategies: [ResourceOptimization, {name: Drowsy, args: {hours: 7}}]}\n"
    assert (ResourceOptimization(), Drowsy(hours=7)) == settings_of(section).strategies
    assert settings_of(section) == parse(dump(parse(TRIMTAB_HEAD + section, FILE)), FILE).settings.rescheduling
    (found,) = problems_of(f"{TRIMTAB_HEAD}rescheduling: {{strategies: [{{name: Drowsy, args: {{hours: 25}}}}]}}\n")
    assert "rescheduling.strategies[0].args.hours: 25 is not between 1 and 24" in found


@pytest.mark.parametrize(
    ("section", "expected"),
    [
        ("[]", "f.yaml:3:15: rescheduling: expected a mapping, got a list"),
        ("{moed: auto}", "f.yaml:3:16: rescheduling.moed: unknown field (did you mean mode?)"),
        ("{mode: apply}", "rescheduling.mode: 'apply' is not one of approve, auto, observe"),
        ("{interval: 5s}", "rescheduling.interval: 5s is not between 10s and 24h"),
        ("{limits: {cpu: 0}}", "rescheduling.limits.cpu: 0 is not above 0 and at most 100: write a percentage of"),
        ("{limits: {memory: 101}}", "rescheduling.limits.memory: 101 is not above 0 and at most 100: write a"),
        ("{limits: {cpu: half}}", "rescheduling.limits.cpu: expected a number, got the string 'half'"),
        (
            "{limits: {memry: 80}}",
            "rescheduling.limits.memry: memry is neither cpu nor memory (did you mean memory?): ",
        ),
        ("{eagerness: 5}", "rescheduling.eagerness: expected a string, got the number 5"),
        ("{eagerness: keen}", "rescheduling.eagerness: 'keen' is not one of balanced, calm, eager"),
        ("{cooldown: 1m}", "rescheduling.cooldown: cooldown (1m) must not be shorter than interval (5m)"),
        ("{forecast: seasnal}", "f.yaml:3:26: rescheduling.forecast: 'seasnal' is not one of seasonal, snapshots (did"),
        ("{forecast: 5}", "rescheduling.forecast: expected a string, got the number 5"),
        ("{maxMoves: 0}", "rescheduling.maxMoves: 0 is not between 1 and 1000"),
        ("{excludedNamespaces: [a, a]}", "rescheduling.excludedNamespaces[1]: a is listed twice"),
        ("{excludedPodSelector: {}}", "rescheduling.excludedPodSelector: selects every pod: write matchLabels or"),
        ("{excludedPodSelector: {app: db}}", "rescheduling.excludedPodSelector.app: unknown field"),
        (
            "{excludedPodSelector: {matchExpressions: [{key: a, operator: In}]}}",
            "rescheduling.excludedPodSelector: values: Invalid value: []: for 'in', 'notin' operators",
        ),
        ("{windows: [{schedule: 0 22 * * *}]}", "rescheduling.windows[0]: duration is missing: write when it begins"),
        ("{windows: [{schedule: 0 25 * * *, duration: 1h}]}", "rescheduling.windows[0]: "),
        ("{windows: [{schedule: '@daily', duration: 1h, timeZone: Mars/Olympus}]}", "rescheduling.windows[0]: "),
        ("{strategies: []}", "rescheduling.strategies: must not be empty: list some of "),
        (
            "{strategies: [{name: KoordinatorLowNodeLoad, args: {lowThresholds: {cpu: 80}, highThresholds: {cpu: 70}}}]}",
            "cpu at 80 is above the 70 of highThresholds: lower it",
        ),
        ("{windows: [{schedule: '0 0 31 2 *', duration: 1h}]}", "never fires: none of its months has such a day"),
        ("{strategies: [ResourceOptimisation]}", "unknown strategy 'ResourceOptimisation' (did you mean ResourceO"),
        ("{strategies: [{args: {}}]}", "rescheduling.strategies[0]: name is missing: write one of "),
        ("{strategies: [{name: ResourceOptimization, args: {x: 1}}]}", "strategies[0].args.x: unknown field"),
        (
            "{strategies: [HotSpot, KoordinatorLowNodeLoad]}",
            "strategies[1]: KoordinatorLowNodeLoad decides by itself, and HotSpot would not be asked: list one of them",
        ),
        (
            "{strategies: [{name: DeschedulerLowNodeUtilization, args: {thresholds: {cpu: 101}}}]}",
            "strategies[0].args.thresholds.cpu: 101 is not between 0 and 100",
        ),
        ("{strategies: [ResourceOptimization, ResourceOptimization]}", "strategies[1]: ResourceOptimization is listed"),
    ],
)
def test_bad_sections(section: str, expected: str) -> None:
    """An invalid field or a contradiction is rejected at its position, with what to write instead."""
    (found,) = problems_of(f"{TRIMTAB_HEAD}rescheduling: {section}\n")
    assert found.startswith("f.yaml:3:") and expected in found


def test_only_a_rescheduler_moves_pods() -> None:
    """A scheduler only plans, and says so; a process that names the rescheduler carries `auto` out."""
    configuration = parse(f"{TRIMTAB_HEAD}{FULL}", FILE)
    scheduler = configuration_for(("scheduler",), configuration, FILE)
    rescheduler = configuration_for(("rescheduler",), configuration, FILE)
    modes = [each.settings.rescheduling.mode for each in (scheduler, rescheduler) if each.settings.rescheduling]
    assert [Mode.OBSERVE, Mode.AUTO] == modes
    sentence = "moves are only planned by this process: those of --controllers rescheduler carry them out"
    assert f"f.yaml: rescheduling.mode: {sentence}" in map(str, scheduler.notes)


def test_a_rescheduler_schedules_nothing() -> None:
    """Its profiles only say where pods of their schedulers fit, beside the stock one; it has a lease of its own."""
    configuration = parse(f"{TRIMTAB_HEAD}{FULL}", FILE)
    alone = configuration_for(("rescheduler",), configuration, FILE)
    assert ((), {"default-scheduler", "trimtab"}) == (alone.settings.profiles, alone.settings.other_schedulers)
    assert "trimtab-rescheduler" == alone.leader_election.name
    stock = {"default-scheduler": "kube-system/kube-scheduler"}
    assert {**stock, "trimtab": "trimtab/trimtab"} == alone.scheduler_leases
    both = configuration_for(("scheduler", "rescheduler"), configuration, FILE)
    assert (["trimtab"], {"default-scheduler"}) == (
        [each.name for each in both.settings.profiles],
        both.settings.other_schedulers,
    )
    assert stock == both.scheduler_leases  # its own is that of this process
    with pytest.raises(ConfigError) as caught:
        configuration_for(("rescheduler",), parse(TRIMTAB_HEAD, FILE), FILE)
    assert "f.yaml: rescheduling: the rescheduler needs this section: see docs/rescheduling.md" == str(caught.value)


RIVAL = """\
rescheduling:
  strategies:
  - {name: KoordinatorLowNodeLoad, args: {highThresholds: {cpu: 70}, nodeFit: false}}
"""


def test_a_rival() -> None:
    """It is parsed and dumped as a strategy is; a threshold that is left out is none."""
    found = settings_of(RIVAL)
    rival = KoordinatorLowNodeLoad(high_thresholds=Thresholds(cpu=70), node_fit=False)
    assert ((rival,), ()) == (found.rivals, found.suggesting)
    assert found == parse(dump(parse(TRIMTAB_HEAD + RIVAL, FILE)), FILE).settings.rescheduling


def test_a_rival_on_a_live_cluster_is_refused() -> None:
    """Also where it would only observe."""
    with pytest.raises(ConfigError) as caught:
        configuration_for(("scheduler",), parse(TRIMTAB_HEAD + RIVAL, FILE), FILE)
    sentence = "KoordinatorLowNodeLoad is run for comparison in trimtab simulate only"
    assert f"f.yaml: rescheduling.strategies: {sentence}" == str(caught.value)


def test_what_guards_read_is_watched() -> None:
    """Also in a process without profiles."""
    found = Settings((), rescheduling=ReschedulingSettings()).kinds
    assert ("pods", "nodes", *GUARDED_KINDS) == found
    assert ("nodes",) == Settings(()).kinds
    wanted = {
        each.name: each.wanted_by for each in extra_watched_kinds(Settings((), rescheduling=ReschedulingSettings()))
    }
    assert dict.fromkeys(found[2:], "") == wanted  # its role file has all of them


def test_pods_are_scheduled_without_what_guards_read() -> None:
    """Whoever may not list a kind that only guards read plans no moves; a kind of the default plugins is theirs."""
    bare = build_profile("bare", {})
    kinds = {each.name: each for each in extra_watched_kinds(Settings((bare,), rescheduling=ReschedulingSettings()))}
    assert dict.fromkeys(GUARDED_KINDS, IfForbidden.REPORT) == {name: each.if_forbidden for name, each in kinds.items()}
    (stock,) = default_configuration().settings.profiles
    alone, with_guards = (
        {each.name: (each.wanted_by, each.if_forbidden) for each in extra_watched_kinds(settings)}
        for settings in (Settings((stock,)), Settings((stock,), rescheduling=ReschedulingSettings()))
    )
    assert alone == with_guards

"""Every template is a valid file, explains each field, and has the values it is known for."""

import re
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import yaml

from tests.cli.test_config import ran
from tests.config.config_files import FILE, HEAD, comparable
from trimtab.cli.config import TEMPLATES, templates
from trimtab.config.configuration import Configuration
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import default_configuration, parse
from trimtab.config.trimtab.settings import MetricsServerSettings
from trimtab.core.model.change import Change
from trimtab.core.model.selectors import LabelSelector
from trimtab.core.plugins.rescheduler import RESCHEDULING_FIELDS
from trimtab.core.rescheduling.settings import EAGERNESS, Mode
from trimtab.core.rescheduling.strategies.load_balancing import LoadBalancing

NAMES_ITSELF = {"apiVersion", "kind", "name"}


def configured(name: str) -> Configuration:
    return parse(templates()[name], FILE)


def arguments(name: str, plugin: str) -> dict[str, Any]:
    theirs, _ = yaml.safe_load_all(templates()[name])
    (profile,) = theirs["profiles"]
    return next(each["args"] for each in profile["pluginConfig"] if each["name"] == plugin)


@pytest.mark.parametrize("name", TEMPLATES)
def test_good_files(name: str) -> None:
    """Each is valid without notes, and its dump is equivalent."""
    configuration = configured(name)
    assert [] == [note for note in configuration.notes if "not supported yet" not in note.message]
    assert comparable(configuration) == comparable(parse(dump(configuration), FILE))


@pytest.mark.parametrize("name", TEMPLATES)
def test_printed(name: str) -> None:
    """The command prints the file as it is shipped."""
    result = ran("config", "template", name)
    assert (0, templates()[name]) == (result.exit_code, result.stdout)


def test_listed() -> None:
    """Without a name each template is listed with a sentence."""
    result = ran("config", "template")
    assert 0 == result.exit_code
    assert [*TEMPLATES] == [line.split(": ")[0] for line in result.stdout.splitlines()]
    assert all(line.endswith(".") and len(line) > 40 for line in result.stdout.splitlines())


def test_unknown_template() -> None:
    """An unknown name gets a suggestion, and the exit code is 2."""
    result = ran("config", "template", "produktion")
    assert (2, "") == (result.exit_code, result.stdout)
    assert "unknown template 'produktion' (did you mean production?): default, production," in result.stderr


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_field_is_explained(name: str) -> None:
    """Each field with a value has a comment beside it, or in the line above."""
    lines = templates()[name].splitlines()
    for above, line in pairwise(lines):
        field = re.match(r" *(?:- )?(\w+): +[^# ]", line)
        if field and field[1] not in NAMES_ITSELF:
            assert " # " in line or above.lstrip().startswith("#"), line


@pytest.mark.parametrize("name", TEMPLATES)
def test_measured_load_decides(name: str) -> None:
    """PeakRisk replaces scores by requests, Rescheduler filters, and the rest is kube-scheduler's."""
    (profile,) = configured(name).settings.profiles
    (stock,) = default_configuration().settings.profiles
    weights = {each.name: each.weight for each in profile.scores}
    by_requests = {"NodeResourcesFit", "NodeResourcesBalancedAllocation"}
    expected = {each.name: each.weight for each in stock.scores if each.name not in by_requests}
    assert {**expected, "PeakRisk": 10} == weights
    assert [*stock.filters, "Rescheduler"] == [*profile.filters[:-1], profile.filters[-1].name]


@pytest.mark.parametrize(
    ("name", "thresholds", "points", "preventive"),
    [
        ("default", (80, 80), "filter reserve preBind", True),
        ("production", (90, 90), "filter", False),
        ("development", (50, 50), "filter reserve preBind", True),
        ("hpc", (85, 90), "filter reserve", True),
        ("memory", (90, 75), "filter preBind", True),
        ("microservices", (80, 80), "filter reserve preBind", True),
        ("multitenant", (85, 85), "filter reserve", False),
    ],
)
def test_rescheduler(name: str, thresholds: tuple[int, int], points: str, preventive: bool) -> None:
    """Thresholds and points are those of the template of that name in Rescheduler's own project."""
    args = arguments(name, "Rescheduler")
    (profile,) = configured(name).settings.profiles
    found = [point.value for point, enabled in profile.enabled.items() if "Rescheduler" in enabled]
    assert (thresholds, points.split()) == ((args["cpuThreshold"], args["memoryThreshold"]), found)
    assert preventive is args["enablePreventiveRescheduling"]


ALL_THREE = ("LoadBalancing", "ResourceOptimization", "NodeMaintenance")
SYSTEM = ("kube-system", "kube-public", "kube-node-lease")


@pytest.mark.parametrize(
    ("name", "interval", "eagerness", "imbalance", "moves", "strategies", "excluded"),
    [
        ("default", 30, "balanced", 20, 10, ALL_THREE, SYSTEM),
        ("production", 60, "calm", 40, 3, ALL_THREE[:1], (*SYSTEM, "istio-system", "monitoring")),
        ("development", 15, "eager", 10, 50, ALL_THREE, SYSTEM[:1]),
        ("hpc", 60, "balanced", 15, 8, ALL_THREE[:2], ("kube-system", "gpu-operator")),
        ("memory", 45, "balanced", 20, 6, ALL_THREE[:2], ("kube-system", "database", "cache")),
        ("microservices", 30, "balanced", 25, 15, ALL_THREE, ("kube-system", "istio-system", "ingress-nginx")),
        (
            *("multitenant", 90, "balanced", 30, 5, ALL_THREE[:1]),
            ("kube-system", "tenant-system", "platform-services", "monitoring", "logging", "ingress-nginx"),
        ),
    ],
)
def test_moves(
    name: str,
    interval: int,
    eagerness: str,
    imbalance: int,
    moves: int,
    strategies: tuple[str, ...],
    excluded: tuple[str, ...],
) -> None:
    """Moves are only planned, by the values of that template in Rescheduler's own project; its thresholds are the limits."""
    found, args = configured(name).settings.rescheduling, arguments(name, "Rescheduler")
    assert found is not None
    assert (Mode.OBSERVE, interval, moves) == (found.mode, found.interval, found.max_moves)
    assert (EAGERNESS[eagerness], excluded) == (found.required_gain, found.excluded_namespaces)
    assert {"cpu": args["cpuThreshold"] / 100, "memory": args["memoryThreshold"] / 100} == found.limits
    assert strategies == tuple(each.name for each in found.strategies)
    assert LoadBalancing(imbalance) == found.strategies[0]


ARGUMENTS = {  # of the Rescheduler plugin, and the field of the section that each is
    **dict.fromkeys(("cpuThreshold", "memoryThreshold"), "limits"),
    "reschedulingInterval": "interval",
    "imbalanceThreshold": "strategies",
    "maxReschedulePods": "maxMoves",
    "enabledStrategies": "strategies",
    "excludedNamespaces": "excludedNamespaces",
    "excludedPodSelector": "excludedPodSelector",
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_all_that_its_controller_could_be_told_is_written(name: str) -> None:
    """As fields with values, so that nobody has to know a default; evicted pods keep their own grace period."""
    assert RESCHEDULING_FIELDS == ARGUMENTS
    _, ours = yaml.safe_load_all(templates()[name])
    written = ours["rescheduling"]
    assert {*ARGUMENTS.values(), "mode", "gracePeriod"} <= written.keys()
    assert {"cpu", "memory"} == written["limits"].keys()
    assert all(
        "imbalanceThreshold" in each["args"] for each in written["strategies"] if each["name"] == "LoadBalancing"
    )
    found = configured(name).settings.rescheduling
    assert found is not None and 0 == found.grace_period


def test_protected_pods_of_tenants() -> None:
    """Those with both labels of the template in Rescheduler's own project; the others protect none by labels."""
    selectors = {name: configured(name).trimtab.rescheduling.excluded_pod_selector for name in TEMPLATES}  # type: ignore[union-attr]
    labels = (("tier", "critical"), ("tenant.io/protected", "true"))
    assert {**dict.fromkeys(TEMPLATES), "multitenant": LabelSelector(labels)} == selectors


@pytest.mark.parametrize("name", TEMPLATES)
def test_plans_need_no_further_permission(name: str) -> None:
    """What guards read is listed for the default plugins in any case."""
    settings = configured(name).settings
    assert {*settings.kinds} == {*replace(settings, rescheduling=None).kinds}


@pytest.mark.parametrize("name", TEMPLATES)
def test_avoided_before_closed(name: str) -> None:
    """No limit that PeakRisk steers clear of is above the threshold at which Rescheduler closes a node."""
    limits = {each["name"]: each["limit"] for each in arguments(name, "PeakRisk")["resources"]}
    args = arguments(name, "Rescheduler")
    assert limits["cpu"] <= args["cpuThreshold"]
    assert limits["memory"] <= args["memoryThreshold"]


@pytest.mark.parametrize("name", TEMPLATES)
def test_measured_without_more_ado(name: str) -> None:
    """Measurements come from the cluster's own metrics-server, so that a template works where it is put."""
    (source,) = configured(name).trimtab.sources
    assert isinstance(source, MetricsServerSettings)


def test_election() -> None:
    """Leases are those of the templates' origin: patient in production, none in development."""
    leases = {name: configured(name).leader_election for name in TEMPLATES}
    assert (30.0, 20.0, 5.0) == (
        leases["production"].lease_duration,
        leases["production"].renew_deadline,
        leases["production"].retry_period,
    )
    assert ["development"] == [name for name, lease in leases.items() if not lease.enabled]


@pytest.mark.parametrize("configuration", [default_configuration(), parse(HEAD, FILE)])
def test_stock_stays_stock(configuration: Configuration) -> None:
    """No plugin that looks at measured load is ever added to a configuration that does not name it."""
    (profile,) = configuration.settings.profiles
    assert not any(reads & int(Change.LOAD) for reads in profile.depends_on.values())

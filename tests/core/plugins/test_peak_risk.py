"""How PeakRisk weighs mean, deviation, the worst resource and missing data, and its normal distribution table."""

from __future__ import annotations

import math

import numpy as np
import pytest
from msgspec.structs import replace

from tests.build import cluster, node, pod
from trimtab.config.diagnostics import ConfigError
from trimtab.config.plugin_args import build_plugin
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.interface import ALL_ROWS
from trimtab.core.model.pod import Owner
from trimtab.core.model.readings import Reading, Statistic, Subject, Unit
from trimtab.core.plugins.peak_risk import (
    SMALL_SELECTION,
    PeakRisk,
    RiskInputs,
    normal_cdf,
    normal_cdf_one,
    normal_loss,
    normal_loss_one,
    risk,
    risk_by_row,
)

NOW = 1000.0
IDLE = 0.1
SMALL = pod("new", cpu="100m", memory="100Mi")
WEB = Owner("ReplicaSet", "web", "uid-web")

Shares = dict[str, tuple[float, ...]]  # by node, sample after sample


def shares(resource: str, values: dict[str, float], at: float, statistic: Statistic = Statistic.LATEST) -> Reading:
    figures, measured = tuple(values.values()), (at,) * len(values)
    return Reading("meter", resource, tuple(values), figures, measured, unit=Unit.FRACTION, statistic=statistic)


def measured(held: Cluster, *, cpu: Shares, memory: Shares | None = None, at: float = NOW) -> Cluster:
    """This many samples a minute apart, the last one at `at`; memory is idle unless given."""
    count = max(map(len, cpu.values()))
    for number in range(count):
        when = at - 60.0 * (count - 1 - number)
        now = {name: values[number] for name, values in cpu.items() if number < len(values)}
        then = {name: (memory or {}).get(name, (IDLE,) * count)[number] for name in now}
        held.ingest_samples((shares("cpu", now, when), shares("memory", then, when)), when)
    return held


def points(held: Cluster, plugin: PeakRisk | None = None) -> dict[str, float]:
    plugin = plugin or PeakRisk()
    column = plugin.score(held.view, SMALL, ALL_ROWS)
    assert column is not None
    return {each.name: score / plugin.score_scale for each, score in zip(held.view.nodes, column.tolist(), strict=True)}


def ranked(held: Cluster, plugin: PeakRisk | None = None) -> str:
    """Names of the nodes, the best first."""
    told = points(held, plugin)
    return " ".join(sorted(told, key=lambda name: -told[name]))


def nodes(*names: str) -> Cluster:
    return cluster(*(node(name, cpu="16", memory="64Gi") for name in names))


def test_lower_requests_win_where_nothing_is_at_risk() -> None:
    """Far from the limit the node with fewer requests is the better one, although it uses more."""
    held = nodes("promised", "busy")
    held.upsert_pod(pod("idler", cpu="8", on="promised"))
    held.upsert_pod(pod("worker", cpu="4", on="busy"))
    measured(held, cpu={"promised": (0.1,) * 4, "busy": (0.3,) * 4})
    assert "busy promised" == ranked(held)


def test_the_lower_load_wins_for_a_pod_whose_siblings_are_measured() -> None:
    """What it will use is known, so no room has to be left for surprises; a pod of another owner goes by requests."""
    held = nodes("promised", "busy")
    held.upsert_pod(pod("idler", cpu="8", on="promised"))
    held.upsert_pod(replace(pod("web-1", cpu="4", on="busy"), owner=WEB, started=0.0))
    measured(held, cpu={"promised": (0.1,) * 4, "busy": (0.3,) * 4})
    used = Reading("pods", "cpu", ("default/web-1",), (4000.0,), (NOW,), subject=Subject.PODS)
    held.ingest_samples((used,), NOW)
    for owner, expected in ((WEB, "promised busy"), (None, "busy promised")):
        new = replace(SMALL, owner=owner)
        column = PeakRisk().score(held.view, new, ALL_ROWS)
        assert column is not None
        by_score = sorted(zip(column.tolist(), (each.name for each in held.view.nodes), strict=True), reverse=True)
        assert expected == " ".join(name for _, name in by_score)


def test_risk_outweighs_requests() -> None:
    """Near the limit what is measured decides, whatever was requested."""
    held = nodes("promised", "hot")
    held.upsert_pod(pod("idler", cpu="15", on="promised"))
    measured(held, cpu={"promised": (0.1,) * 4, "hot": (0.77,) * 4})
    assert "promised hot" == ranked(held)


def test_the_lower_mean_wins_where_requests_are_equal() -> None:
    """Far from the limit and with the same requests the lower load is the better one."""
    assert "low mid high" == ranked(
        measured(nodes("high", "low", "mid"), cpu={"high": (0.4,) * 4, "low": (0.1,) * 4, "mid": (0.25,) * 4})
    )


def test_the_calmer_of_two_equal_means_wins() -> None:
    """Of two nodes with the same mean near the limit, the one that varies less is the better one."""
    held = measured(nodes("wild", "calm"), cpu={"wild": (0.4, 0.8, 0.4, 0.8), "calm": (0.6, 0.6, 0.6, 0.6)})
    assert "calm wild" == ranked(held, PeakRisk(lean=1.0))


def test_a_rising_load_counts_as_it_is_now() -> None:
    """Of two nodes whose pods had the same mean, the one that uses more now is at risk, before it is at its limit."""
    held = nodes("rising", "steady")
    held.age_load(NOW - 300.0)
    for name in ("rising", "steady"):
        held.upsert_pod(pod(f"on-{name}", cpu="4", on=name))
    for number, share in enumerate((0.2, 0.2, 0.2, 0.6)):
        at = NOW - 60.0 * (3 - number)
        used = {"rising": share, "steady": 0.3}
        pods = tuple(16_000 * each for each in used.values())
        of_pods = Reading("meter", "cpu", ("default/on-rising", "default/on-steady"), pods, (at, at), Subject.PODS)
        held.ingest_samples((shares("cpu", used, at), shares("memory", dict.fromkeys(used, IDLE), at), of_pods), at)
    mean, _ = held.view.load.forecast("cpu")
    assert mean[0] == pytest.approx(mean[1])
    told = points(held)
    assert told["rising"] < told["steady"] - 5


def test_the_worst_resource_counts() -> None:
    """A node whose memory is nearly full is worse than one that is fuller on average and near no limit."""
    held = measured(
        nodes("lopsided", "even"),
        cpu={"lopsided": (0.1,) * 4, "even": (0.6,) * 4},
        memory={"lopsided": (0.95,) * 4, "even": (0.6,) * 4},
    )
    assert "even lopsided" == ranked(held)
    assert "lopsided even" == ranked(held, build_plugin("PeakRisk", PeakRisk, {"resources": [{"name": "cpu"}]}))  # type: ignore[arg-type]


def test_points_have_their_range() -> None:
    """However full a node is, its points stay between 0 and 100, and the fuller one has fewer."""
    held = measured(nodes("idle", "full", "beyond"), cpu={"idle": (0.0,) * 3, "full": (1.0,) * 3, "beyond": (1.0,) * 3})
    held.age_load(NOW + 1.0)
    held.assume(pod("huge", cpu="8"), "beyond")
    told = points(held)
    assert 100 >= told["idle"] > told["full"] > told["beyond"] >= 0


def test_the_pod_itself_counts() -> None:
    """A node that the pod alone would bring over the limit is worse than a fuller one that is large enough."""
    held = cluster(node("small", cpu="2", memory="64Gi"), node("large", cpu="64", memory="64Gi"))
    measured(held, cpu={"small": (0.3,) * 3, "large": (0.4,) * 3})
    column = PeakRisk().score(held.view, pod("big", cpu="1900m"), ALL_ROWS)
    assert column is not None and column[0] < column[1]


def test_pods_that_no_sample_shows_count() -> None:
    """Of two nodes that were measured alike the one that has got a pod since is the worse one."""
    held = measured(nodes("a", "b"), cpu={"a": (0.3,) * 3, "b": (0.3,) * 3})
    held.age_load(NOW + 1.0)
    held.assume(pod("fresh", cpu="500m"), "a")
    assert "b a" == ranked(held)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.79, 0.85, 1.2])
def test_no_data_is_never_an_advantage(share: float) -> None:
    """A node without metrics is not better than one whose measured load equals the requests of both."""
    asks = f"{int(16000 * share)}m"
    held = cluster(*(node(name, cpu="16", memory="64Gi") for name in ("blind", "seen")))
    for name in ("blind", "seen"):
        held.upsert_pod(pod(f"on-{name}", cpu=asks, memory="6554Mi", on=name))
    held.age_load(NOW - 500.0)
    measured(held, cpu={"seen": (share,) * 5}, at=NOW)
    told = points(held)
    assert told["blind"] <= told["seen"] + 1e-6


def test_without_any_data_requests_decide() -> None:
    """Without any metrics nodes rank by the requests of their fuller resource."""
    asked = {"a": ("8", "4Gi"), "b": ("1", "4Gi"), "c": ("1", "60Gi"), "d": ("0", "0")}
    held = cluster(
        *(node(name, cpu="16", memory="64Gi") for name in asked),
        *(pod(f"on-{name}", cpu=cpu, memory=memory, on=name) for name, (cpu, memory) in asked.items()),
    )
    assert "d b a c" == ranked(held)


def test_a_source_that_fails_leaves_requests() -> None:
    """When the source fails, the order is at once that of requests; when it answers again, that of use."""
    held = nodes("busy", "calm")
    held.upsert_pod(pod("heavy", cpu="8", on="calm"))
    measured(held, cpu={"busy": (0.78,) * 4, "calm": (0.1,) * 4})
    assert "calm busy" == ranked(held)
    held.discard_source("meter", NOW)
    assert "busy calm" == ranked(held)
    measured(held, cpu={"busy": (0.78,), "calm": (0.1,)}, at=NOW + 15.0)
    assert "calm busy" == ranked(held)


def test_old_samples_are_doubted() -> None:
    """A node whose samples are getting on is worse than one that was measured the same just now."""
    held = nodes("old", "new")
    measured(held, cpu={"old": (0.6,) * 4, "new": (0.6,) * 4})
    measured(held, cpu={"new": (0.6,)}, at=NOW + 200.0)
    assert "new old" == ranked(held)


def test_some_rows_as_all() -> None:
    """Asked about one row or a few, it answers as it does about all."""
    names = [f"n{number}" for number in range(40)]
    busy = {name: (0.03 * number, 0.02 * number, 0.025 * number) for number, name in enumerate(names) if number % 7}
    held = measured(nodes(*names), cpu=busy)
    held.upsert_pod(pod("heavy", cpu="8", on="n7"))
    whole = PeakRisk().score(held.view, SMALL, ALL_ROWS)
    assert whole is not None
    for size in (1, 3, SMALL_SELECTION + 1):
        parts = [PeakRisk().score(held.view, SMALL, slice(row, row + size)) for row in range(0, 40, size)]
        assert whole.tolist() == np.concatenate([part for part in parts if part is not None]).tolist()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"floor": 0}, "args.floor: 0 is not above 0 and at most 100"),
        ({"floor": 30}, "at most spread (25)"),
        ({"spread": 120}, "args.spread: 120 is not above 0 and at most 100"),
        ({"lean": 0}, "args.lean: 0 is not above 0"),
        ({"resources": []}, "name cpu, memory or both"),
        ({"resources": [{"name": "cpu"}, {"name": "cpu"}]}, "each once"),
        ({"resources": [{"name": "gpu"}]}, "not 'gpu'"),
        ({"resources": [{"name": "cpu", "limit": 120}]}, "args.resources[0].limit: 120 is not above 0 and at most 100"),
    ],
)
def test_nonsense_is_refused(arguments: dict[str, object], words: str) -> None:
    """An argument out of its range is rejected with its name and value."""
    with pytest.raises(ConfigError) as refused:
        build_plugin("PeakRisk", PeakRisk, arguments)
    assert words in str(refused.value)


def test_probability() -> None:
    """The table gives the normal distribution to a millionth, and its ends beyond it."""
    at = np.linspace(-12, 12, 1001)
    expected = np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in at])
    assert np.abs(expected - normal_cdf(at)).max() < 1e-6


def test_expected_excess() -> None:
    """The table gives the mean of what is above zero, to a hundred-thousandth: zero far below, the mean itself far above."""
    at = np.linspace(-12, 12, 1001)
    density = np.exp(-at * at / 2) / math.sqrt(2 * math.pi)
    expected = density + at * np.array([math.erfc(-each / math.sqrt(2)) / 2 for each in at])
    assert np.abs(expected - normal_loss(at)).max() < 1e-5


def test_one_value_as_many() -> None:
    """One at a time they are the same to the last digit."""
    at = np.linspace(-9, 9, 5003)
    assert normal_cdf(at).tolist() == [normal_cdf_one(each) for each in at.tolist()]
    assert normal_loss(at).tolist() == [normal_loss_one(each) for each in at.tolist()]


def test_rows_one_by_one_as_many() -> None:
    """Row by row the risks are those of all rows at once, where something is missing and where all is known."""
    dice = np.random.default_rng(1)
    mean, variance, trust, asked, capacity = dice.uniform(0, 1, (5, 500))
    mean[::7], variance[::5], trust = np.nan, np.nan, np.round(trust * 2) / 2
    look = RiskInputs(mean * 9000, variance * 9e5, trust, asked * 9000, capacity * 8000, 200.0, 4e4, 0.8, 0.02, 0.25)
    assert list(zip(*(each.tolist() for each in risk(look)), strict=True)) == risk_by_row(look)


def test_more_load_is_more_risk() -> None:
    """With the mean both the probability and the expected excess rise, across the limit too."""
    mean, same = np.linspace(0, 2000, 2001), np.full(2001, 9e3)
    look = RiskInputs(mean, same, np.ones(2001), mean, np.full(2001, 1000.0), 0.0, 0.0, 0.8, 0.02, 0.25)
    probability, excess, _ = risk(look)
    assert (np.diff(probability) >= 0).all() and (np.diff(excess) >= 0).all() and excess[-1] > excess[1200] > 0.3


def test_doubt_only_adds_risk() -> None:
    """Less trust never lowers the probability or the expected excess."""
    mean, rest = np.linspace(0, 1200, 25), np.full(25, 400.0)
    sure, half = (
        RiskInputs(mean, rest, np.full(25, trust), mean, np.full(25, 1000.0), 0.0, 0.0, 0.8, 0.02, 0.25)
        for trust in (1.0, 0.5)
    )
    for known, doubted in zip(risk(sure), risk(half), strict=True):
        assert (known <= doubted).all()

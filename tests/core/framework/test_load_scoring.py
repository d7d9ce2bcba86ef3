"""Load-aware plugins give the same results for a few rows, in plain numbers, as for all rows at once."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from tests.build import cluster, node, pod
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.cluster.view import View
from trimtab.core.framework.interface import ALL_ROWS, Filter, Plugin, Rows, Score
from trimtab.core.framework.load_scoring.scalar import small_selection
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.duration import Duration
from trimtab.core.model.readings import Reading, Unit
from trimtab.core.plugins.dynamic import Dynamic, DynamicSchedulerPolicy, HotValue, Priority
from trimtab.core.plugins.load_aware_scheduling import LoadAwareScheduling
from trimtab.core.plugins.load_aware_scheduling.arguments import ByResource
from trimtab.core.plugins.rescheduler import Rescheduler
from trimtab.core.plugins.trimaran.load_variation_risk_balancing import LoadVariationRiskBalancing
from trimtab.core.plugins.trimaran.low_risk_over_commitment import LowRiskOverCommitment
from trimtab.core.plugins.usage import Usage

NAMES = [f"n{number}" for number in range(60)]
MANY = DynamicSchedulerPolicy(
    priority=tuple(Priority(name, 0.1) for name in ("cpu_usage_avg_5m", "mem_usage_max_avg_1h")) * 5,
    hot_value=(HotValue(Duration(300), 3), HotValue(Duration(60), 2)),
)
PLUGINS: list[Plugin] = [
    Dynamic(),
    Dynamic(policy=MANY),
    Dynamic(policy=DynamicSchedulerPolicy(priority=(Priority("cpu_usage_avg_5m", 0.0),), hot_value=())),
    LoadAwareScheduling(),
    LoadAwareScheduling(resource_weights=ByResource(3, 1), dominant_resource_weight=2),
    LoadVariationRiskBalancing(),
    LoadVariationRiskBalancing(safe_variance_margin=1.7, safe_variance_sensitivity=2.3),
    LowRiskOverCommitment(),
    Rescheduler(),
    Usage(),
    Usage(cpu_weight=3, memory_weight=7),
]


def measured(rng: Random) -> Cluster:
    """Nodes from idle to beyond what they have for pods; of some one resource is known, or one sample, or an old one."""
    held = cluster(*(node(name, cpu="7", memory="11Gi") for name in NAMES))
    held.load_store.apply_settings(LoadSettings(estimates=("requests",)))
    for number, at in enumerate((15.0, 30.0, 45.0, 150.0)):
        for resource, seen in (("cpu", NAMES[: 50 - 5 * number]), ("memory", NAMES[5 : 55 - 9 * number])):
            shares = tuple(rng.uniform(0.0, 1.2) for _ in seen)
            held.ingest_samples(
                (Reading("meter", resource, tuple(seen), shares, (at,) * len(seen), unit=Unit.FRACTION),), at
            )
    for number in range(90):
        held.assume(pod(f"p{number}", cpu=f"{rng.randint(1, 900)}m", memory="300Mi"), rng.choice(NAMES))
    return held


def answers(plugin: Plugin, view: View, rows: Rows) -> list[list[int]]:
    newcomer = pod("new", cpu="1300m", memory="1700Mi")
    columns = [plugin.filter(view, newcomer, rows)] if isinstance(plugin, Filter) else []
    scores = plugin.score(view, newcomer, rows) if isinstance(plugin, Score) else None
    assert scores is not None
    return [column.tolist() for column in (*columns, scores)]


@pytest.mark.parametrize("plugin", PLUGINS, ids=lambda plugin: plugin.name)
@pytest.mark.parametrize("seed", range(5))
def test_few_as_all(plugin: Plugin, seed: int) -> None:
    """Row by row and three at a time, codes and scores are those of all rows, and not the same for all."""
    view = measured(Random(seed)).view
    every = answers(plugin, view, ALL_ROWS)
    assert all(len({*column}) > 2 for column in every)
    alone = [answers(plugin, view, slice(row, row + 1)) for row in range(view.count)]
    assert every == [[each[0] for each in column] for column in zip(*alone, strict=True)]
    some = np.array([view.count - 1, 3, 17])
    assert [[column[row] for row in some] for column in every] == answers(plugin, view, some)


@pytest.mark.parametrize(
    ("rows", "picked"),
    [(slice(3, 5), [3, 4]), (slice(58, 70), [58, 59]), (slice(0, 5), []), (ALL_ROWS, []), (np.array([7, 2]), [7, 2])],
)
def test_which_rows_are_few(rows: Rows, picked: list[int]) -> None:
    """Up to four rows are few; all of them never are, so that both ways are tried on small clusters."""
    assert picked == list(small_selection(measured(Random(0)).view, rows))

"""Results: the same bytes for the same runs, in the order of policies and seeds, and what moves cost."""

from __future__ import annotations

import csv
import io
import json

from msgspec.structs import replace

from tests.apps.simulate.small_scenario import small_jobs, small_scenario
from trimtab.apps.simulate.jobs import Finished, Job, run_job
from trimtab.apps.simulate.policies import find_policies
from trimtab.apps.simulate.results import Results, move_costs, summarise_results, to_csv, to_json
from trimtab.sim.comparison import Summary
from trimtab.sim.measures import MEASURES


def outcome(finished: list[tuple[Job, Finished]], seeds: int = 2) -> Results:
    scenarios = {seed: small_scenario(seed) for seed in range(1, seeds + 1)}
    return summarise_results("trimtab simulate small", scenarios, find_policies(["stock", "PeakRisk"]), finished)[0]


def test_the_order_in_which_runs_finish_changes_nothing() -> None:
    """The same bytes of JSON and CSV, and timings are in neither."""
    finished = [(job, run_job(job)) for job in small_jobs(seeds=2)]
    slower = [(job, replace(each, timing=replace(each.timing, seconds=99.0))) for job, each in reversed(finished)]
    assert to_json(outcome(finished)) == to_json(outcome(slower))
    assert to_csv(outcome(finished)) == to_csv(outcome(slower))


def test_what_the_json_has() -> None:
    """Versions, scenario, policies, runs, and a summary for each measure and policy."""
    document = json.loads(to_json(outcome([(job, run_job(job)) for job in small_jobs(seeds=2)])))
    assert ("trimtab.dev/v1alpha1", "SimulationResults") == (document["apiVersion"], document["kind"])
    assert ("small", 3, 1200.0) == tuple(document["scenario"][key] for key in ("name", "nodes", "duration"))
    assert [("stock", 1), ("stock", 2), ("PeakRisk", 1), ("PeakRisk", 2)] == [
        (run["policy"], run["seed"]) for run in document["runs"]
    ]
    assert {measure.name for measure in MEASURES} == set(document["summaries"])
    hot = document["summaries"]["hot80"]
    assert hot["stock"]["ratio"] is None
    assert {"ratio", "low", "high"} == set(hot["PeakRisk"]["ratio"])


def test_the_csv_has_a_row_for_each_run() -> None:
    """With a column for each measure."""
    rows = [*csv.DictReader(io.StringIO(to_csv(outcome([(job, run_job(job)) for job in small_jobs()], 1)).decode()))]
    assert ["stock", "PeakRisk"] == [row["policy"] for row in rows]
    assert {measure.name for measure in MEASURES} < set(rows[0])
    assert float(rows[0]["hot80"]) > 0


def test_runs_that_are_missing_are_left_out() -> None:
    """A policy whose runs have all failed has no summary, and the others do."""
    results = outcome([(job, run_job(job)) for job in small_jobs(("stock",), seeds=2)])
    assert ["stock"] == results.measured
    assert ["stock"] == [*results.summaries["hot80"]]


def test_what_moves_cost() -> None:
    """Moves per node-minute that the baseline has more; none for whoever does not move, or gains nothing by it."""
    values = {"moves": (0.0, 10.0, 5.0, 0.0), "hot80_minutes": (100.0, 60.0, 120.0, 50.0)}
    names = ("stock", "mover", "worse", "still")
    summaries = {
        measure: {name: Summary(value, None, None) for name, value in zip(names, means, strict=True)}
        for measure, means in values.items()
    }
    assert {"mover": 0.25} == move_costs(summaries)

"""The results of a comparison as one value, and as JSON and CSV; docs/simulator.md describes the fields.

Everything in it follows from scenario, policies, seeds and Trimtab's version: the same input gives the same bytes.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from importlib.metadata import version

import msgspec
from msgspec import Struct

from trimtab.apps.simulate.jobs import Finished, Job, JobKind, scenario_digest
from trimtab.apps.simulate.policies import Policy
from trimtab.sim.compaction import Compaction
from trimtab.sim.comparison import Summary, mean, summarise
from trimtab.sim.measures import MEASURES, Measure, RunResult
from trimtab.sim.scenario import Scenario
from trimtab.sim.snapshot_document import API_VERSION

KIND = "SimulationResults"


class ScenarioFacts(Struct, frozen=True, rename="camel"):
    """What a reader wants to know of the scenario; times are in seconds. `digest` is that with the first seed."""

    name: str
    description: str
    digest: str
    nodes: int
    begins: float
    duration: float
    step: float
    warm_up: float
    scrape_interval: float


class PolicyFacts(Struct, frozen=True):
    """A policy's name, and the digest of its file."""

    name: str
    digest: str


class Run(Struct, frozen=True):
    """The measures of one run by name."""

    policy: str
    seed: int
    decisions: int
    measures: Mapping[str, float]


class CompactionFacts(Struct, frozen=True):
    """Nodes needed in each trial, and their 90th percentile."""

    nodes: int
    at: float
    pods: int
    unplaceable: int
    needed: list[int]
    percentile90: int


class Results(Struct, frozen=True, rename="camel"):
    """All of a comparison. summaries: by measure and policy. move_costs: moves per hot node-minute that they avoided."""

    api_version: str
    kind: str
    versions: Mapping[str, str]
    command: str
    scenario: ScenarioFacts
    policies: list[PolicyFacts]
    seeds: list[int]
    measures: list[Measure]
    runs: list[Run]
    summaries: Mapping[str, Mapping[str, Summary]]
    move_costs: Mapping[str, float]
    compaction: Mapping[str, CompactionFacts]

    @property
    def baseline(self) -> str:
        return self.policies[0].name

    @property
    def measured(self) -> list[str]:
        """The policies with at least one run."""
        return [each.name for each in self.policies if any(run.policy == each.name for run in self.runs)]


def summarise_results(
    command: str,
    scenarios: Mapping[int, Scenario],
    policies: Sequence[Policy],
    finished: Sequence[tuple[Job, Finished]],
) -> tuple[Results, list[RunResult]]:
    """The comparison, and the runs with what the report draws; in the order of policies and seeds."""
    order = {policy.name: number for number, policy in enumerate(policies)}
    runs = sorted(
        (each.run() for job, each in finished if job.kind is JobKind.RUN),
        key=lambda run: (order[run.policy], run.seed),
    )
    compactions = {job.policy.name: each.compaction() for job, each in finished if job.kind is not JobKind.RUN}
    summaries = {measure.name: _summary(measure.name, policies, runs) for measure in MEASURES} if runs else {}
    results = Results(
        API_VERSION,
        KIND,
        {"trimtab": version("trimtab")},
        command,
        scenario_facts(next(iter(scenarios.values()))),
        [PolicyFacts(policy.name, policy.digest) for policy in policies],
        sorted(scenarios),
        list(MEASURES),
        [Run(run.policy, run.seed, run.decisions, run.measures) for run in runs],
        summaries,
        move_costs(summaries),
        {name: _compaction(compactions[name]) for name in order if name in compactions},
    )
    return results, runs


def _summary(measure: str, policies: Sequence[Policy], runs: Sequence[RunResult]) -> dict[str, Summary]:
    values = {
        each.name: {run.seed: run.measures[measure] for run in runs if run.policy == each.name} for each in policies
    }
    baseline = policies[0].name
    return summarise({name: of_seed for name, of_seed in values.items() if of_seed or name == baseline})


def _compaction(found: Compaction) -> CompactionFacts:
    return CompactionFacts(found.nodes, found.at, found.pods, found.unplaceable, found.needed, found.percentile)


def move_costs(summaries: Mapping[str, Mapping[str, Summary]]) -> dict[str, float]:
    """Moves per node-minute above 80 % that the baseline has more; only for policies that move, and gain by it."""
    if not summaries:
        return {}
    moves, hot = summaries["moves"], summaries["hot80_minutes"]
    before = next(iter(hot.values())).mean
    return {
        name: moves[name].mean / (before - hot[name].mean)
        for name in moves
        if moves[name].mean > 0 and hot[name].mean < before
    }


def scenario_facts(scenario: Scenario) -> ScenarioFacts:
    return ScenarioFacts(
        scenario.name,
        scenario.description,
        scenario_digest(scenario),
        len(scenario.nodes),
        scenario.begins,
        scenario.duration,
        scenario.step,
        scenario.warm_up,
        scenario.metrics.interval,
    )


def to_json(results: Results) -> bytes:
    return msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n"


def to_csv(results: Results) -> bytes:
    """One row per run."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = [measure.name for measure in results.measures]
    writer.writerow(["scenario", "policy", "seed", "decisions", *names])
    for run in results.runs:
        values = [repr(run.measures[name]) for name in names]
        writer.writerow([results.scenario.name, run.policy, run.seed, run.decisions, *values])
    return text.getvalue().encode()


def mean_by_policy(runs: Sequence[RunResult], series: str) -> dict[str, list[float]]:
    """The mean over seeds of a series that runs have, such as `histogram`."""
    found: dict[str, list[list[float]]] = {}
    for run in runs:
        found.setdefault(run.policy, []).append(getattr(run, series))
    return {policy: [mean(at) for at in zip(*rows, strict=False)] for policy, rows in found.items()}

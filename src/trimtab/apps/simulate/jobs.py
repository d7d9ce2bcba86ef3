"""Jobs: one scenario, one policy and one seed each. A job is a value, so that another process or machine can run it.

The result is bytes: the same job gives the same bytes, wherever it runs. What took how long is kept beside it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from enum import StrEnum
from functools import cache
from importlib.metadata import version
from pathlib import Path
from time import perf_counter
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct
from msgspec.structs import replace

import trimtab
from trimtab.apps.plugins import installed_plugins, source_digest
from trimtab.apps.simulate.policies import Policy, read_configuration, settings_of
from trimtab.core.framework.profile import plugin_names
from trimtab.sim.compaction import Compaction, compact
from trimtab.sim.measures import RunMeter, RunResult
from trimtab.sim.scenario import Scenario
from trimtab.sim.simulation import Simulation

CODE = ("core", "wire", "config", "sim", "forecasters", "apps/simulate")  # folders of the package
DIGITS = 9  # of a measure: the last ones of a float differ between processors

Tell = Callable[[float], None]  # hears of the share of a job that is done


class JobKind(StrEnum):
    """What a job does with its scenario."""

    RUN = "run"
    COMPACTION = "compaction"


class Job(Struct, frozen=True):
    """`key` is a digest of everything that the result depends on."""

    scenario: Scenario
    policy: Policy
    seed: int
    key: str
    kind: JobKind = JobKind.RUN

    @property
    def title(self) -> str:
        what = "" if self.kind is JobKind.RUN else " (compaction)"
        return f"{self.policy.name}, seed {self.seed}{what}"


class Timing(Struct, frozen=True):
    """How long a job took here, in seconds of wall time, and how many decisions it made."""

    seconds: float
    decisions: int


class Finished(Struct, frozen=True):
    """A job's result, as JSON of a RunResult or a Compaction."""

    content: bytes
    timing: Timing

    def run(self) -> RunResult:
        return msgspec.json.decode(self.content, type=RunResult)

    def compaction(self) -> Compaction:
        return msgspec.json.decode(self.content, type=Compaction)


def make_jobs(
    scenarios: dict[int, Scenario], policies: Sequence[Policy], *, compaction: bool = False
) -> tuple[Job, ...]:
    """All policies with the first seed, then with the next: an interrupted run has compared them all on some seeds."""
    digests = {seed: scenario_digest(scenario) for seed, scenario in scenarios.items()}
    codes = {policy.name: policy_digest(policy) for policy in policies}

    def job(seed: int, policy: Policy, kind: JobKind) -> Job:
        return Job(
            scenarios[seed], policy, seed, _key(digests[seed], policy.name, codes[policy.name], seed, kind), kind
        )

    jobs = [job(seed, policy, JobKind.RUN) for seed in scenarios for policy in policies]
    if compaction:
        first = next(iter(scenarios))
        jobs += [job(first, policy, JobKind.COMPACTION) for policy in policies]
    return tuple(jobs)


def scenario_digest(scenario: Scenario) -> str:
    """Of what happens in it, not of how its file is written."""
    return hashlib.sha256(msgspec.json.encode(scenario, enc_hook=_plain, order="deterministic")).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return [str(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest()]
    raise NotImplementedError(type(value).__name__)


def _key(scenario: str, name: str, policy: str, seed: int, kind: JobKind) -> str:
    parts = (scenario, name, policy, str(seed), kind.value, version("trimtab"), code_digest())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


@cache
def code_digest() -> str:
    """Of the code that decides and simulates: whoever changes a plugin must not find the results of the old one."""
    found = hashlib.sha256()
    for folder in CODE:
        for path in sorted((Path(trimtab.__file__).parent / folder).rglob("*.py")):
            found.update(path.name.encode() + b"\0" + path.read_bytes())
    return found.hexdigest()


def policy_digest(policy: Policy) -> str:
    """Of its file, and of the code of those of its plugins that other packages have."""
    installed = installed_plugins()
    used = {name for profile in read_configuration(policy).settings.profiles for name in plugin_names(profile)}
    return "\0".join([policy.digest, *(source_digest(installed[name]) for name in sorted(used & installed.keys()))])


def run_job(job: Job, tell: Tell = lambda share: None) -> Finished:
    """Run it to its end."""
    settings = settings_of(job.policy, job.scenario)
    started = perf_counter()
    if job.kind is JobKind.COMPACTION:
        compaction = compact(job.scenario, settings, job.seed, tell)
        return Finished(msgspec.json.encode(compaction), Timing(perf_counter() - started, 0))
    scenario = job.scenario
    simulation = Simulation(scenario, settings, job.seed)
    meter = RunMeter(simulation.world, scenario, simulation.budgets)
    simulation.run(lambda now: tell((now - scenario.begins) / scenario.duration))
    timing = Timing(perf_counter() - started, simulation.decisions)
    result = meter.result(job.policy.name, job.seed, simulation.decisions)
    measures = {name: float(f"{value:.{DIGITS}g}") for name, value in result.measures.items()}
    return Finished(msgspec.json.encode(replace(result, measures=measures)), timing)

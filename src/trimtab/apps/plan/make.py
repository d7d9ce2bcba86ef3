"""Makes a plan of a snapshot: an engine learns the cluster from it, and its rescheduling controller plans once.

    snapshot ─▶ kinds listed? ─▶ engine ─▶ usage known? ─▶ one tick ─▶ turns of the rescheduling controller ─▶ PlannedMoves
                     └──────── no ────────────┴──▶ NothingPlanned

Only the rescheduling controller gets turns: pending pods stay pending, and nothing that the engine asks for is performed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from trimtab.apps.plan.highs import highs, solve
from trimtab.apps.plan.usage import Hottest, check_usage, hottest_nodes
from trimtab.config.configuration import Configuration
from trimtab.config.registry import other_profiles
from trimtab.config.trimtab.rescheduling import why_only_simulated
from trimtab.core.engine import Engine
from trimtab.core.framework.profile import Profile
from trimtab.core.model.events import LeaseAcquired, Tick
from trimtab.core.model.objects import Namespace
from trimtab.core.model.plan import Plan
from trimtab.core.rescheduling.controller import Rescheduling
from trimtab.core.rescheduling.exact import NoExactPlan
from trimtab.core.rescheduling.exact_planner import ExactPlanner
from trimtab.core.rescheduling.explain import NodeOutlook, explain_rescheduling
from trimtab.core.rescheduling.settings import Mode, ReschedulingSettings
from trimtab.core.settings import Settings
from trimtab.kube.kinds import EXTRA_KINDS
from trimtab.sim.snapshot_file import ClusterSnapshot

STEPS = 64  # of a plan, in one turn
MAX_TAKING = 600.0  # seconds from the first list to the last sample of a snapshot


class NothingPlanned(Exception):
    """Why there is no plan, and what to do."""


class PlannedMoves(NamedTuple):
    """A plan, and what it is about.

    at: when the cluster was as the plan says. cluster: the UID of the namespace kube-system, empty if unknown.
    versions: the resourceVersion of each pod that is moved, by UID; 0 if unknown.
    """

    plan: Plan
    settings: ReschedulingSettings
    at: float
    cluster: str
    nodes: int
    pods: int
    versions: Mapping[str, int]
    hottest: tuple[Hottest, ...]
    notes: tuple[str, ...]
    hashed: bool = False
    outlook: NodeOutlook | None = None  # of the node that was asked about


def settings_for(
    configuration: Configuration, other_schedulers: Mapping[str, Profile], rival: ReschedulingSettings | None = None
) -> Settings:
    """What to plan with: moves are never carried out, and pods of default-scheduler fit where its stock profile says so,
    unless the configuration or `other_schedulers` have another profile of that name. Only profiles of the configuration are
    ours: where pods of all others go, their scheduler alone decides.

    rival: another project's rescheduler, which plans in place of the configuration's own. Raises NothingPlanned for one that
    the configuration has.
    """
    if reason := why_only_simulated(configuration.settings.rescheduling):
        raise NothingPlanned(f"{reason}; --descheduler-policy FILE plans with a rival's own file")
    ours = tuple(each for each in configuration.settings.profiles if each.name not in other_schedulers)
    own = configuration.settings.rescheduling or ReschedulingSettings()
    return replace(
        configuration.settings,
        profiles=ours,
        other_profiles=other_profiles(ours, other_schedulers),
        labels=None,
        rescheduling=replace(own if rival is None else rival, mode=Mode.OBSERVE),
    )


def make_plan(snapshot: ClusterSnapshot, settings: Settings, node: str = "", *, exact: bool = False) -> PlannedMoves:
    """Raises NothingPlanned where too little is known to move anything, or no exact plan can be found. node: one to be
    explained, too."""
    rescheduling = settings.rescheduling
    assert rescheduling is not None
    _check_kinds(snapshot, settings)
    now = moment_of(snapshot)
    engine = Engine(settings)
    for event in snapshot.events(now):
        engine.handle(event)
    notes = check_usage(engine.cluster, snapshot.usage, rescheduling.limits, settings.load)
    if isinstance(notes, str):
        raise NothingPlanned(notes)
    if node and node not in engine.cluster.node_table.row:
        raise NothingPlanned(f"--node: there is no node {node}")
    plan = _plan_exactly(engine, now) if exact else _plan_once(engine, now)
    pods = engine.cluster.pods
    return PlannedMoves(
        plan,
        rescheduling,
        now,
        _cluster_id(snapshot),
        len(snapshot.nodes),
        len(snapshot.pods),
        {move.uid: pods[move.uid].version for move in plan.moves},
        hottest_nodes(engine.cluster, rescheduling.limits, plan.moves),
        (*notes, *_notes(snapshot, settings)),
        snapshot.metadata.hashed,
        explain_rescheduling(engine.controller(Rescheduling), node) if node else None,
    )


def moment_of(snapshot: ClusterSnapshot) -> float:
    """When the last of it was read: lists begin before the sources are asked."""
    usage = snapshot.usage
    samples = [*usage.nodes.values(), *usage.pods.values()] if usage is not None else []
    newest = max((each.measured for each in samples), default=snapshot.taken)
    return max(snapshot.taken, min(newest, snapshot.taken + MAX_TAKING))


def _check_kinds(snapshot: ClusterSnapshot, settings: Settings) -> None:
    """A budget or a volume that is not seen would be broken or lost, so everything that is read must be listed."""
    dispensable = {kind for kind, each in EXTRA_KINDS.items() if each.dispensable}
    missing = [kind for kind in snapshot.metadata.missing if kind in settings.kinds and kind not in dispensable]
    if missing:
        raise NothingPlanned(f"{', '.join(missing)} could not be listed: grant the verb list on these resources")


def _plan_once(engine: Engine, now: float) -> Plan:
    engine.handle(LeaseAcquired(0, now))  # only lets it decide
    outputs = engine.handle(Tick(now))
    controller = engine.controller(Rescheduling)
    while controller.has_work():
        outputs += controller.turn(STEPS, now)
    for output in outputs:
        if isinstance(output, Plan):
            return output
    raise NothingPlanned(f"the planner waits for {', '.join(sorted(engine.state.unsynced)) or 'nothing known'}")


def _plan_exactly(engine: Engine, now: float) -> Plan:
    try:
        highs()  # before anything else is computed
        engine.controller(Rescheduling).make_planner = partial(ExactPlanner, solve=solve)
        return _plan_once(engine, now)
    except NoExactPlan as error:
        raise NothingPlanned(str(error)) from None


def _cluster_id(snapshot: ClusterSnapshot) -> str:
    spaces = (each for each in snapshot.objects if isinstance(each, Namespace))
    return next((each.uid for each in spaces if each.name == "kube-system"), "")


def _notes(snapshot: ClusterSnapshot, settings: Settings) -> Iterator[str]:
    unknown = Counter(pod.scheduler_name for pod in snapshot.pods if pod.node and not pod.finished)
    for name, count in unknown.items():
        if settings.any_profile_of(name) is None:
            yield f"{count} pods of the scheduler {name} are not moved: name its file with --scheduler-config {name}=FILE"
    if snapshot.history is None:
        yield "there is no history of usage, so only the newest samples count"
    yield from snapshot.metadata.notes

"""The configuration of a process with some of the controllers: what each needs of the file, and what the others leave out."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from types import MappingProxyType

from trimtab.config.configuration import Configuration, LeaderElection
from trimtab.config.diagnostics import ConfigError, Note, Problem
from trimtab.config.registry import other_profiles
from trimtab.config.trimtab.labeller import combined_configuration, labeller_configuration
from trimtab.config.trimtab.rescheduling import why_only_simulated
from trimtab.core.framework.profile import Profile
from trimtab.core.rescheduling.settings import Mode
from trimtab.kube.lease import RESCHEDULER_LEASE, STOCK_LEASE
from trimtab.wire.pod_template import DEFAULT_SCHEDULER

SCHEDULER, LABELLER, RESCHEDULER = "scheduler", "labeller", "rescheduler"
DEFAULT_SCHEDULER_LEASE = f"kube-system/{STOCK_LEASE}"
NO_PROFILES: Mapping[str, Profile] = MappingProxyType({})
ONLY_OBSERVED = "moves are only planned by this process: those of --controllers rescheduler carry them out"
NEEDS_SECTION = "the rescheduler needs this section: see docs/rescheduling.md"


def configuration_for(
    controllers: Collection[str], configuration: Configuration, file: str, others: Mapping[str, Profile] = NO_PROFILES
) -> Configuration:
    """The configuration of a process with these controllers; raises ConfigError if the file does not suffice.

    Without the labeller, rules in the file are left to a `trimtab labeller` with an account of its own; without the
    rescheduler, moves are only planned. others: the profiles of other schedulers in the cluster, by name.
    """
    if LABELLER not in controllers:
        configuration = replace(configuration, settings=replace(configuration.settings, labels=None))
    elif SCHEDULER in controllers or RESCHEDULER in controllers:
        configuration = combined_configuration(configuration, file)
    else:
        return labeller_configuration(configuration, file)
    return _with_rescheduler(controllers, configuration, file, others)


def _with_rescheduler(
    controllers: Collection[str], configuration: Configuration, file: str, others: Mapping[str, Profile]
) -> Configuration:
    settings, rescheduling = configuration.settings, configuration.settings.rescheduling
    carries_out = RESCHEDULER in controllers
    if reason := why_only_simulated(rescheduling):
        raise ConfigError([Problem(file, 0, 0, "rescheduling.strategies", reason)])
    if rescheduling is None:
        if carries_out:
            raise ConfigError([Problem(file, 0, 0, "rescheduling", NEEDS_SECTION)])
        return configuration
    if not carries_out and rescheduling.mode is not Mode.OBSERVE:
        rescheduling = replace(rescheduling, mode=Mode.OBSERVE)
        note = Note(file, 0, 0, "rescheduling.mode", ONLY_OBSERVED)
        configuration = replace(configuration, notes=(*configuration.notes, note))
    schedules = SCHEDULER in controllers
    ours = tuple(each for each in settings.profiles if schedules and each.name not in others)
    theirs = {each.name: each for each in settings.profiles if not schedules} | dict(others)
    settings = replace(settings, profiles=ours, other_profiles=other_profiles(ours, theirs), rescheduling=rescheduling)
    leader, leases = configuration.leader_election, {DEFAULT_SCHEDULER: DEFAULT_SCHEDULER_LEASE}
    if not schedules and leader.name in (LeaderElection().name, STOCK_LEASE):  # those are the schedulers'
        leases |= {name: f"{leader.namespace}/{leader.name}" for name in theirs if name not in others}
        leader = replace(leader, name=RESCHEDULER_LEASE, namespace=LeaderElection().namespace)
    leases = {name: lease for name, lease in leases.items() if name in settings.other_schedulers}
    return replace(configuration, settings=settings, leader_election=leader, scheduler_leases=leases)

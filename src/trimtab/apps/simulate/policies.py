"""Policies: what a simulation compares. Each is a configuration file that could run live, or the policy of a descheduler.

A policy is found by the name of a file in `trimtab/sim/policies`, by that of a template, or by its path. To ship another one,
add a file there. With a DeschedulerPolicy, or Koordinator's DeschedulerConfiguration, that rescheduler runs by its own rules
beside the stock profile.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from math import gcd
from pathlib import Path

from msgspec import Struct

from trimtab.apps.config_file import IncludedFiles, config_digest, os_error_text, read_bounded, recorded_files
from trimtab.apps.plugins import installed_for_rescheduling, installed_plugins
from trimtab.config.configuration import Configuration
from trimtab.config.descheduler.rivals import rival_configuration
from trimtab.config.diagnostics import ConfigError, Problem, did_you_mean
from trimtab.config.kube_scheduler import parse
from trimtab.config.manifests import locate
from trimtab.config.yaml import MappingNode
from trimtab.core.load.settings import FRESH, STALE
from trimtab.core.model.duration import format_duration
from trimtab.core.model.events import ConfigText
from trimtab.core.settings import Settings
from trimtab.sim.scenario import Scenario
from trimtab.sim.shipped import is_path
from trimtab.sim.simulation import without_observing
from trimtab.sim.snapshot_scenario import stopping_kinds
from trimtab.sources.registry import SOURCE_SETTINGS

ReadFile = Callable[[str], tuple[str, bytes]]
# How often a sample's usual age, unless the policy's file says how long samples are trusted.
FRESH_AGES, STALE_AGES = 2, 3


class Policy(Struct, frozen=True):
    """What tables call it, and the text that it is read from."""

    name: str
    config: ConfigText

    @property
    def digest(self) -> str:
        return config_digest(self.config)


@cache
def named_policies() -> Mapping[str, str]:
    """The text of the shipped policies and the templates, by name."""
    folders = resources.files("trimtab.sim") / "policies", resources.files("trimtab.config") / "templates"
    return {
        each.name.removesuffix(".yaml"): each.read_text(encoding="utf-8")
        for folder in folders
        for each in sorted(folder.iterdir(), key=lambda each: each.name.lower())
        if each.name.endswith(".yaml")
    }


def find_policies(given: Collection[str]) -> tuple[Policy, ...]:
    """All policies, checked; raises ConfigError with the problems of all of them."""
    problems: list[Problem] = []
    found: dict[str, Policy] = {}
    for each in given:
        try:
            policy = find_policy(each)
            if policy.name in found:  # two files of one name: the paths tell them apart
                policy = Policy(each, policy.config)
            if policy.name in found:
                raise ConfigError([Problem(each[:200], 0, 0, "", "is given twice: leave one out")])
            found[policy.name] = policy
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return tuple(found.values())


def is_file_name(given: str) -> bool:
    """Whether a policy is given by its path, and not by a name."""
    return is_path(given, named_policies())


def find_policy(given: str) -> Policy:
    """The policy of this name or path."""
    known = named_policies()
    if given in known:
        policy = Policy(given, ConfigText(f"{given}.yaml", known[given].encode()))
        read_configuration(policy)
        return policy
    if is_file_name(given):
        return _read_file(Path(given))
    message = (
        f"there is no such policy{did_you_mean(given, known)}: name a configuration file, or one of {', '.join(known)}"
    )
    raise ConfigError([Problem(given[:200], 0, 0, "", message)])


def _read_file(path: Path) -> Policy:
    try:
        content = read_bounded(path)
    except OSError as error:
        raise ConfigError([Problem(str(path), 0, 0, "", os_error_text(error))]) from None
    included = IncludedFiles(path)
    _parse(content, str(path), included)
    return Policy(path.name.removesuffix(path.suffix), ConfigText(str(path), content, included.contents()))


def read_configuration(policy: Policy) -> Configuration:
    return _parse(policy.config.content, policy.config.file, recorded_files(policy.config))


def _parse(content: bytes, file: str, read_file: ReadFile) -> Configuration:
    rival = rival_configuration(content, file)
    if rival is not None:
        return rival
    installed = installed_for_rescheduling()
    return parse(content, file, installed_plugins(), SOURCE_SETTINGS, read_file, installed=installed)


def settings_of(policy: Policy, scenario: Scenario) -> Settings:
    """The engine's settings, where samples are trusted for longer than they get old unless the file says for how long.

    A policy that only observes what could be moved, as the templates do, moves nothing here, and plans nothing.
    """
    settings, written = without_observing(read_configuration(policy).settings), load_fields(policy)
    load, age = settings.load, oldest_sample(scenario)
    fresh = load.fresh if "freshFor" in written else max(FRESH, FRESH_AGES * age)
    stale = load.stale if "staleAfter" in written else max(STALE, STALE_AGES * age, fresh)
    return replace(settings, load=replace(load, fresh=min(fresh, stale), stale=stale))


def trusting_samples(settings: Settings, scenario: Scenario) -> Settings:
    """With as much trust at least as a snapshot needs: its steps may be longer than the live intervals."""
    load, age = settings.load, oldest_sample(scenario)
    fresh = max(load.fresh, FRESH_AGES * age)
    return replace(settings, load=replace(load, fresh=fresh, stale=max(load.stale, STALE_AGES * age, fresh)))


def oldest_sample(scenario: Scenario) -> float:
    """How old a sample gets before the next one arrives: a step is measured at its end, then scraped, then seen."""
    step, interval = round(scenario.step * 1000), round(scenario.metrics.interval * 1000)
    return (step + interval - gcd(step, interval)) / 1000 + scenario.metrics.delay


def load_fields(policy: Policy) -> frozenset[str]:
    """The fields of `load` that the policy's file has."""
    if rival_configuration(policy.config.content, policy.config.file) is not None:
        return frozenset()
    for document in locate(policy.config.content, policy.config.file).documents:
        section = document.entries.get("load") if isinstance(document, MappingNode) else None
        if isinstance(section, MappingNode):
            return frozenset(section.entries)
    return frozenset()


def notes_on(policy: Policy, scenario: Scenario) -> Iterator[str]:
    """What makes a comparison unfair, though the file is valid."""
    rival = rival_configuration(policy.config.content, policy.config.file)
    yield from map(str, rival.notes if rival is not None else ())
    settings = settings_of(policy, scenario)
    stale, oldest = settings.load.stale, oldest_sample(scenario)
    if stale < oldest:
        yield (
            f"{policy.name} ignores samples from an age of {format_duration(stale)} on, and the scenario's get as old as "
            f"{format_duration(oldest)}: part of the time it sees no load. Remove load.staleAfter from its file, or raise it"
        )
    if kinds := stopping_kinds(scenario, settings):
        yield f"{policy.name} schedules nothing without {', '.join(kinds)}: one of its plugins reads them for every pod"

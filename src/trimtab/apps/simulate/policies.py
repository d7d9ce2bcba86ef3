"""Policies: what a simulation compares. Each is a configuration file that could run live.

A policy is found by the name of a file in `trimtab/sim/policies`, by that of a template, or by its path. To ship another one,
add a file there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path

from msgspec import Struct

from trimtab.apps.config_file import IncludedFiles, config_digest, os_error_text, read_bounded, recorded_files
from trimtab.apps.plugins import installed_plugins
from trimtab.config.configuration import Configuration
from trimtab.config.diagnostics import ConfigError, Problem, did_you_mean
from trimtab.config.kube_scheduler import parse
from trimtab.config.manifests import locate
from trimtab.config.yaml import MappingNode
from trimtab.core.load.settings import FRESH, STALE
from trimtab.core.model.duration import format_duration
from trimtab.core.model.events import ConfigText
from trimtab.core.settings import Settings
from trimtab.sim.scenario import MetricsPipeline
from trimtab.sim.simulation import without_observing
from trimtab.sources.registry import SOURCE_SETTINGS

SUFFIXES = (".yaml", ".yml")
FRESH_INTERVALS, STALE_INTERVALS = 2, 3  # of the scrapes, unless the policy's file says how long samples are trusted


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
    path = Path(given)
    return given not in named_policies() and ("/" in given or path.suffix in SUFFIXES or path.is_file())


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
    parse(content, str(path), installed_plugins(), SOURCE_SETTINGS, included)
    files = tuple((str(name), state) for name, state in included.states.items() if isinstance(state, bytes))
    return Policy(path.name.removesuffix(path.suffix), ConfigText(str(path), content, files))


def read_configuration(policy: Policy) -> Configuration:
    config = policy.config
    return parse(config.content, config.file, installed_plugins(), SOURCE_SETTINGS, recorded_files(config))


def settings_of(policy: Policy, interval: float) -> Settings:
    """The engine's settings, where samples are trusted for some intervals unless the file says for how long.

    A policy that only observes what could be moved, as the templates do, moves nothing here, and plans nothing.
    """
    settings, written = without_observing(read_configuration(policy).settings), load_fields(policy)
    load = settings.load
    fresh = load.fresh if "freshFor" in written else max(FRESH, FRESH_INTERVALS * interval)
    stale = load.stale if "staleAfter" in written else max(STALE, STALE_INTERVALS * interval, fresh)
    return replace(settings, load=replace(load, fresh=min(fresh, stale), stale=stale))


def load_fields(policy: Policy) -> frozenset[str]:
    """The fields of `load` that the policy's file has."""
    for document in locate(policy.config.content, policy.config.file).documents:
        section = document.entries.get("load") if isinstance(document, MappingNode) else None
        if isinstance(section, MappingNode):
            return frozenset(section.entries)
    return frozenset()


def notes_on(policy: Policy, metrics: MetricsPipeline) -> Iterator[str]:
    """What makes a comparison unfair, though the file is valid."""
    stale, oldest = settings_of(policy, metrics.interval).load.stale, metrics.interval + metrics.delay
    if stale < oldest:
        yield (
            f"{policy.name} ignores samples from an age of {format_duration(stale)} on, and the scenario's get as old as "
            f"{format_duration(oldest)}: part of the time it sees no load. Remove load.staleAfter from its file, or raise it"
        )

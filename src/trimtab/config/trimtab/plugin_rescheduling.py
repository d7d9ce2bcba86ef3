"""Makes the rescheduler's settings of a plugin's arguments, as the project that the plugin comes from configures it.

A plugin says so itself (`NamesRescheduling`); Rescheduler is one. Nothing is planned unless the file has the plugin's
switch: a default must not make an upgraded process plan, watch more kinds and keep more history. Plans are never carried
out by such arguments alone, and a section `rescheduling` goes before them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from trimtab.config.config_node import ConfigNode
from trimtab.config.profiles import ParsedProfile
from trimtab.config.schema import fields_of
from trimtab.config.trimtab.settings import TrimtabConfiguration
from trimtab.core.framework.interface import NamedRescheduling, NamesRescheduling
from trimtab.core.model.duration import format_duration
from trimtab.core.rescheduling.settings import COOLDOWN, Mode, ReschedulingSettings
from trimtab.core.rescheduling.strategies.registry import STRATEGIES

_FIELDS = {each.key: each for each in fields_of(ReschedulingSettings)}


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The arguments of a plugin that is enabled: those that the file has, and what all of them say."""

    entries: Mapping[str, ConfigNode]
    named: NamedRescheduling

    def of(self, field: str) -> list[str]:
        """The arguments that become this field, and that the file has."""
        return [name for name, each in self.named.arguments.items() if each == field and name in self.entries]

    @property
    def written(self) -> list[str]:
        """The arguments that the file has, without those that may be meant for scheduling alone."""
        return [name for name in self.named.arguments if name in self.entries and self._is_for_moves(name)]

    def _is_for_moves(self, argument: str) -> bool:
        return argument not in self.named.shared or self.named.switch in self.entries


def add_plugin_rescheduling(document: TrimtabConfiguration, profiles: Iterable[ParsedProfile]) -> TrimtabConfiguration:
    """The document with the rescheduler's settings, if it has none and a plugin's arguments ask for them."""
    section = document.rescheduling
    given = [*_given(profiles)]
    for each in given:
        if section is not None:
            _note_differences(each, section)
        elif each.named.switch not in each.entries and each.named.enabled and each.written:
            _note_switch(each)
    if section is not None:
        return document
    asking = [each for each in given if each.named.switch in each.entries and each.named.enabled]
    found = _settings(asking, bool(document.sources))
    return document if found is None else replace(document, rescheduling=found)


def _given(profiles: Iterable[ParsedProfile]) -> Iterator[_Arguments]:
    for profile in profiles:
        for name, args in profile.arguments.items():
            plugin = profile.plugins[name]
            if name in profile.enabled and isinstance(plugin, NamesRescheduling):
                yield _Arguments(args.entries() or {}, plugin.named_rescheduling())


def _settings(asking: Collection[_Arguments], measured: bool) -> ReschedulingSettings | None:
    """Of the first that asks; there is one rescheduler for all profiles."""
    found: ReschedulingSettings | None = None
    for each in asking:
        switch = each.entries[each.named.switch]
        if not measured:
            switch.note("no moves are planned, because nothing is measured: add a TrimtabConfiguration with sources")
        elif found is None:
            found = _settings_of(each.named)
            _note_mode(switch, found)
            _note_ranges(each, found)
        elif found != _settings_of(each.named):
            switch.note("there is one rescheduler for all profiles, and the arguments of an earlier profile count")
    return found


def _settings_of(named: NamedRescheduling) -> ReschedulingSettings:
    """Numbers beyond the rescheduler's own ranges are brought into them."""
    interval = _within(_FIELDS["interval"].setting.seconds, named.interval)
    return ReschedulingSettings(
        mode=Mode.OBSERVE,
        interval=interval,
        limits=dict(named.limits),
        strategies=tuple(STRATEGIES[name](**args) for name, args in named.strategies.items()),
        max_moves=int(_within(_FIELDS["maxMoves"].setting.between, named.max_moves)),
        cooldown=max(COOLDOWN, interval),
        excluded_namespaces=named.excluded_namespaces,
        excluded_pod_selector=named.excluded_pod_selector,
    )


def _within(limits: tuple[float, float] | None, value: float) -> float:
    low, high = limits or (value, value)
    return min(max(float(value), low), high)


def _note_ranges(arguments: _Arguments, settings: ReschedulingSettings) -> None:
    named, changed = arguments.named, dict[str, str]()
    if settings.interval != named.interval:
        changed["interval"] = format_duration(settings.interval)
    if settings.max_moves != named.max_moves:
        changed["maxMoves"] = str(settings.max_moves)
    for field, value in changed.items():
        for name in arguments.of(field):
            arguments.entries[name].note(f"{value} counts instead, the nearest value that the rescheduler takes")


def _note_mode(switch: ConfigNode, settings: ReschedulingSettings) -> None:
    switch.note(
        f"moves are only planned, every {format_duration(settings.interval)}, and logged: to carry them out, write a "
        "section rescheduling with mode: auto (`trimtab config show` prints the rest of it), and run with --controllers "
        "scheduler,rescheduler"
    )


def _note_switch(arguments: _Arguments) -> None:
    arguments.entries[arguments.written[0]].note(
        f"no moves are planned: write {arguments.named.switch}: true beside it to have them planned and logged"
    )


def _note_differences(arguments: _Arguments, section: ReschedulingSettings) -> None:
    """The section counts; the first argument that says something else is where the note is."""
    named, own = arguments.named, _settings_of(arguments.named)
    if named.switch in arguments.entries and not named.enabled:
        arguments.entries[named.switch].note("the section rescheduling counts, and plans moves")
        return
    differing = [name for name in arguments.written if _differ(own, section, named.arguments[name])]
    if differing:
        fields = ", ".join(dict.fromkeys(named.arguments[name] for name in differing))
        arguments.entries[differing[0]].note(f"the section rescheduling counts, and differs in {fields}")


def _differ(one: ReschedulingSettings, other: ReschedulingSettings, field: str) -> bool:
    name = _FIELDS[field].name
    return _unordered(getattr(one, name)) != _unordered(getattr(other, name))


def _unordered(value: object) -> object:
    return frozenset(value) if isinstance(value, tuple) else value

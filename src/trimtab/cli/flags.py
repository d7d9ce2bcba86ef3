"""Flags as Kubernetes' programs take them: in groups, lists with commas, durations, and booleans with or without a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from trimtab.core.model.duration import parse_duration

F = TypeVar("F", bound=Callable[..., Any])


class GroupedOption(click.Option):
    """An option that `--help` shows in a group of its own."""

    def __init__(self, *args: Any, group: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group = group


class GroupedCommand(click.Command):
    """Shows its own options first, then those of each group; a flag in `refused` is rejected with that reason."""

    def __init__(self, *args: Any, refused: Mapping[str, str] | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.context_settings = {"help_option_names": ["-h", "--help"], **self.context_settings}
        self._refused = refused or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, [normalise(arg) for arg in args])
        except click.NoSuchOption as error:
            reason = self._refused.get(error.option_name)
            if reason is None:
                raise
            raise click.UsageError(f"{error.option_name}: {reason}", ctx) from None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            if (record := param.get_help_record(ctx)) is not None:
                groups.setdefault(getattr(param, "group", "") or "Options", []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)


def normalise(arg: str) -> str:
    """Kubernetes' programs take `--leader_elect` and `-v=2`."""
    if arg.startswith("-v="):
        return f"-{arg}"
    name, equals, value = arg.partition("=")
    return name.replace("_", "-") + equals + value if name.startswith("--") else arg


class Duration(click.ParamType[Any]):
    """Seconds, from Go's way to write a duration."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        seconds = value if isinstance(value, float) else parse_duration(str(value))
        if seconds is None:
            self.fail(f'{value!r} is not a duration: write for example "10s" or "1m30s"', param, ctx)
        return seconds


class Strings(click.ParamType[Any]):
    """Strings with commas between them; a flag that is repeated adds to them."""

    name = "strings"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        return value if isinstance(value, tuple) else tuple(filter(None, (each.strip() for each in value.split(","))))


class Boolean(click.types.BoolParamType):
    """True without a value."""

    name = "bool"


@dataclass(frozen=True)
class Flag:
    """A flag of a group; its value is None, or an empty tuple for strings, if it is not given."""

    group: str
    name: str
    kind: click.ParamType[Any]
    help: str
    short: tuple[str, ...] = ()
    hidden: bool = False

    @property
    def parameter(self) -> str:
        """The name of its value."""
        return self.name.replace("-", "_")

    def option(self) -> Callable[[F], F]:
        """As a decorator of a command."""
        more: dict[str, Any] = {"is_flag": False, "flag_value": True} if isinstance(self.kind, Boolean) else {}
        names = (*self.short, f"--{self.name}", self.parameter)
        return click.option(
            *names,
            cls=GroupedOption,
            group=self.group,
            type=self.kind,
            help=self.help,
            hidden=self.hidden,
            multiple=isinstance(self.kind, Strings),
            **more,
        )


def add_flags(flags: Sequence[Flag]) -> Callable[[F], F]:
    """A decorator that adds them in this order; the command gets their values as keyword arguments."""

    def decorate(command: F) -> F:
        for each in reversed(flags):
            command = each.option()(command)
        return command

    return decorate


def strings(values: tuple[tuple[str, ...], ...], default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The strings of a flag that may be repeated, or the default if it is not given."""
    return tuple(each for value in values for each in value) if values else default

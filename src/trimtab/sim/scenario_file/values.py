"""The values of a scenario file: fields of a mapping, times, shares, levels of usage, names.

A parser returns None after it has reported a problem, and the field then has its default, so that one pass over a file finds
all problems.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from math import ceil, floor, inf
from typing import TypeVar

from msgspec import Struct

from trimtab.config.codecs import parse_quantity
from trimtab.config.config_node import ConfigNode
from trimtab.config.yaml import ScalarNode
from trimtab.core.model.duration import DAY, HOUR, MINUTE, format_duration
from trimtab.core.model.resources import CPU, NANOS, amounts
from trimtab.core.model.selectors import MAX_LABEL_VALUE, Requirement

T = TypeVar("T")
D = TypeVar("D")
Parse = Callable[[ConfigNode], T | None]

LONGEST = 366 * DAY
SHORTEST_INTERVAL = 1.0
MAX_INTERVALS = 10_000_000  # in a scenario: more would seem to run for ever
LARGEST_SHARE = 1000.0
MAX_NAME = 253
_PART = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME = re.compile(rf"{_PART}(\.{_PART})*")
_PERCENT = re.compile(r"([0-9]{1,9}(\.[0-9]{1,9})?) ?%")
_TIME_OF_DAY = re.compile(r"([0-9]{1,4}):([0-5][0-9])(?::([0-5][0-9]))?")


class Fields:
    """The fields of a mapping, where only these names are allowed."""

    def __init__(self, node: ConfigNode, names: Collection[str]) -> None:
        self.node = node
        entries = node.fields(names)
        self.is_mapping, self.entries = entries is not None, entries or {}

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def get(self, key: str, parse: Parse[T], default: D) -> T | D:
        value = self.find(key, parse)
        return default if value is None else value

    def find(self, key: str, parse: Parse[T]) -> T | None:
        """The value; None if it is unset, or after a problem."""
        return parse(self.entries[key]) if key in self.entries else None

    def require(self, key: str, parse: Parse[T], default: D, remedy: str) -> T | D:
        if self.is_mapping and key not in self.entries:
            self.node.error(f"{key} is missing: {remedy}")
        return self.get(key, parse, default)

    def items(self, key: str) -> list[ConfigNode]:
        return self.entries[key].items() if key in self.entries else []

    def at(self, *keys: str) -> ConfigNode:
        """The first of these fields that is set, or the mapping itself."""
        return next((self.entries[key] for key in keys if key in self.entries), self.node)


class Timeline(Struct, frozen=True):
    """When a scenario begins and ends, in seconds since midnight of its first day."""

    begins: float = 0.0
    ends: float = inf

    def moment(self, node: ConfigNode) -> float | None:
        """A time of day such as "14:30", or a duration such as 10m, counted from the beginning."""
        text = node.yaml.value if isinstance(node.yaml, ScalarNode) else None
        clock = isinstance(text, str) and _TIME_OF_DAY.fullmatch(text)
        at = time_of_day(node) if clock else self._after(node)
        if at is None:
            return None
        if at < self.begins:
            node.error(
                f"{clock_text(at)} is before the scenario begins ({clock_text(self.begins)}): hours go on after "
                'midnight, so "26:00" is two at night of the second day'
            )
            return None
        if at > self.ends:
            node.error(f"{clock_text(at)} is after the scenario ends ({clock_text(self.ends)}): make duration longer")
            return None
        return at

    def interval(self, node: ConfigNode) -> float | None:
        """How often something happens from the beginning to the end: a second or more, and not too often."""
        seconds = duration(node)
        if seconds is None:
            return None
        if seconds < SHORTEST_INTERVAL:
            node.error(f"{format_duration(seconds)} is too short: write {format_duration(SHORTEST_INTERVAL)} or more")
            return None
        times = (self.ends - self.begins) / seconds
        if MAX_INTERVALS < times < inf:
            node.error(
                f"is {times:,.0f} times in the scenario: at most {MAX_INTERVALS:,} are simulated, so make it longer"
            )
            return None
        return seconds

    def _after(self, node: ConfigNode) -> float | None:
        seconds = duration(node)
        return None if seconds is None else self.begins + seconds


def time_of_day(node: ConfigNode) -> float | None:
    """Seconds since midnight; hours may go on after 24."""
    text = node.string()
    if text is None:
        return None
    seconds = parse_clock(text)
    if seconds is None:
        node.error(f'{text[:30]!r} is not a time of day: write hours and minutes, such as "08:00"')
    return seconds


def parse_clock(text: str) -> float | None:
    """Seconds of a time such as 08:00 or 25:30:10; None if it is none."""
    match = _TIME_OF_DAY.fullmatch(text)
    if match is None:
        return None
    hours, minutes, seconds = match.groups()
    return int(hours) * HOUR + int(minutes) * MINUTE + int(seconds or 0)


def clock_text(seconds: float) -> str:
    """A time as a scenario file writes it."""
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}" + (f":{rest:02}" if rest else "")


def duration(node: ConfigNode) -> float | None:
    """Seconds, zero or more."""
    seconds = node.duration()
    if seconds is not None and not 0 <= seconds <= LONGEST:
        node.error(f"{format_duration(seconds)} is not between 0s and {format_duration(LONGEST)}")
        return None
    return seconds


def positive_duration(node: ConfigNode) -> float | None:
    seconds = duration(node)
    if seconds == 0:
        node.error("must be longer than 0s")
        return None
    return seconds


def duration_range(node: ConfigNode) -> tuple[float, float] | None:
    """One duration, or a list of the shortest and the longest."""
    if isinstance(node.yaml, ScalarNode):
        seconds = duration(node)
        return None if seconds is None else (seconds, seconds)
    items = node.items()
    found = [seconds for item in items if (seconds := duration(item)) is not None]
    if len(found) == len(items) == 2 and found[0] <= found[1]:
        return found[0], found[1]
    if len(found) == len(items) and items:
        node.error("expected one duration, or the shortest and the longest as [1s, 4s]")
    return None


def percentage(node: ConfigNode) -> float | None:
    """The number before the sign, divided by 100; None, without a problem, if this is no percentage."""
    text = node.yaml.value if isinstance(node.yaml, ScalarNode) else None
    match = _PERCENT.fullmatch(text) if isinstance(text, str) else None
    return float(match.group(1)) / 100 if match else None


def _is_percentage(node: ConfigNode) -> bool:
    """Whether it ends like one; with a problem if it cannot be read as one."""
    text = node.yaml.value if isinstance(node.yaml, ScalarNode) else None
    if not isinstance(text, str) or not text.rstrip().endswith("%"):
        return False
    if percentage(node) is None:
        node.error(f'{text[:30]!r} is not a percentage: write one such as "85%", zero or more')
    return True


def factor(node: ConfigNode) -> float | None:
    """A percentage or a number, zero or more: 120% and 1.2 are the same."""
    value = percentage(node)
    if value is None and isinstance(node.yaml, ScalarNode) and isinstance(node.yaml.value, str):
        node.error(f'{node.yaml.value[:30]!r} is not a share: write a percentage such as "85%", or 0.85')
        return None
    value = node.number() if value is None else value
    if value is not None and not 0 <= value <= LARGEST_SHARE:
        node.error(f"{value:g} is not between 0 and {LARGEST_SHARE:g}")
        return None
    return value


def share(node: ConfigNode) -> float | None:
    """A percentage or a number from 0 to 1."""
    value = factor(node)
    if value is not None and value > 1:
        node.error(f"{value:.0%} is more than 100%")
        return None
    return value


def quantity(node: ConfigNode, resource: str) -> int | None:
    """An amount of a resource as Kubernetes writes it, in millicores or its own unit."""
    nanos = parse_quantity(node)
    return None if nanos is None else amounts({resource: nanos})[0][1]


def check_whole(node: ConfigNode, resource: str) -> bool:
    """Whether the quantity suits the resource: devices and the like are counted in whole numbers."""
    nanos = parse_quantity(node)
    if nanos is None or "/" not in resource or nanos % NANOS == 0:
        return nanos is not None
    node.error(f"{resource[:60]} is counted in whole numbers: write one")
    return False


def capacity(resource: str) -> Parse[int]:
    """The same, above zero."""

    def parse(node: ConfigNode) -> int | None:
        amount = quantity(node, resource)
        if amount == 0:
            node.error("must be above 0")
            return None
        return amount

    return parse


class Level(Struct, frozen=True):
    """Parses levels of usage: percentages of `whole`, which is what a pod requests or a node has, and quantities.

    `whole` None means that there is no telling what it is, after another problem.
    """

    resource: str
    whole: int | None
    of: str

    def __call__(self, node: ConfigNode) -> float | None:
        if not _is_percentage(node):
            amount = quantity(node, self.resource)
            return None if amount is None else float(amount)
        relative = percentage(node)
        if relative is None:
            return None
        if self.whole == 0:
            example = "250m" if self.resource == CPU else "100Mi"
            node.error(f'is a share of {self.of}, which is 0: write a quantity such as "{example}"')
            return None
        return relative * (self.whole or 0)


def pod_count(node: ConfigNode, replicas: int, round_up: bool) -> int | None:
    """A number of pods, or a percentage of the replicas, as in a Deployment or a PodDisruptionBudget."""
    if not _is_percentage(node):
        return node.integer(0, 100_000)
    relative = percentage(node)
    if relative is None:
        return None
    exact = round(relative * replicas, 6)
    return ceil(exact) if round_up else floor(exact)


def integer_from(low: int, high: int) -> Parse[int]:
    return lambda node: node.integer(low, high)


def object_name(node: ConfigNode) -> str | None:
    """A name that the API server would accept."""
    name = node.string()
    if name is not None and (not _NAME.fullmatch(name) or len(name) > MAX_NAME):
        node.error(f"{name[:60]!r} is not a name: use lower case letters, digits, '-' and '.', at most {MAX_NAME}")
        return None
    return name


def labels(node: ConfigNode) -> dict[str, str] | None:
    """Labels as a mapping of strings."""
    found: dict[str, str] = {}
    for key, each in (node.entries() or {}).items():
        value = each.string()
        if value is None:
            continue
        if len(value) > MAX_LABEL_VALUE or not Requirement(key, "In", (value,)).valid:
            each.error(f"{key[:60]}={value[:70]} is not a valid label")
        else:
            found[key] = value
    return found

"""Decodes Prometheus responses and turns their series into readings.

A piece of a response is decoded as a whole; only if that fails is it decoded series by series, so that one malformed series
costs only itself. A response with warnings is rejected, because Prometheus itself does not vouch for it. A value without a
timestamp is dropped, and so are two values of one name, because nothing says which is right; dropped values are counted by
reason.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec
from msgspec import Raw, Struct

from trimtab.config.diagnostics import printable
from trimtab.core.model.readings import Reading
from trimtab.sources.interface import SourceError
from trimtab.sources.prometheus.client import HttpResponse
from trimtab.sources.prometheus.node_matching import MatchFailure, NodeMatcher
from trimtab.sources.prometheus.queries import SERIES_KIND_LABEL, TIME, Query
from trimtab.wire.decoding import NULL, UNREADABLE

MAX_MESSAGE_LENGTH = 300
INFO_PREFIX = "PromQL info"  # Prometheus before 2.54 reports infos as warnings
MAX_CLOCK_SKEW = 60.0  # how far the clock of Prometheus may be ahead of ours

# Why a series is dropped.
MALFORMED, UNNAMED = "malformed", "unnamed"
NOT_A_NUMBER, INFINITE, NO_TIME, FUTURE = "not a number", "infinite", "no time", "future"
_INFINITE = re.compile(r"[+-]?inf(inity)?|[+-]?[0-9.]+(e[+-]?[0-9]+)?", re.IGNORECASE)

CHECK_URL = "set url to the base address of a Prometheus, without /graph or /api/v1"
TRY_TLS = "use https:// if it speaks TLS"  # an invalid query would be reported as JSON
REMEDIES = {
    400: "correct the query",
    401: "check bearerTokenFile or basicAuth",
    403: "check bearerTokenFile or basicAuth, and what they allow",
    404: CHECK_URL,
    422: "correct the query",
}

Owner = str | MatchFailure | None
SeriesList = Sequence[Any]
L = TypeVar("L")


class InvalidQuery(SourceError):
    """Prometheus cannot parse the query, so asking again does not help."""


class Point(Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """A timestamp and a number as text, as Prometheus writes them."""

    at: float
    value: str


class PodLabels(Struct, frozen=True, gc=False):
    """The only labels that are needed of a pod's series; the others are not decoded."""

    namespace: str = ""
    pod: str = ""
    trimtab_of: str = ""


class Series(Struct, Generic[L], frozen=True, gc=False):
    """One element of an instant vector."""

    metric: L
    value: Point


class RangeSeries(Struct, Generic[L], frozen=True, gc=False):
    """One element of a range vector."""

    metric: L
    values: tuple[Point, ...]


class Data(Struct, frozen=True):
    resultType: str = ""
    result: Raw = NULL


class Envelope(Struct, frozen=True):
    status: str
    data: Data | None = None
    error: str | None = None
    warnings: tuple[str, ...] | None = None


class ResponseDecoder(Generic[L]):
    """Decodes the series of one shape from responses of one result type."""

    def __init__(self, shape: type[L], result_type: str) -> None:
        self._one = msgspec.json.Decoder(shape)
        self._all: msgspec.json.Decoder[Sequence[L]] = msgspec.json.Decoder(list[shape])  # type: ignore[valid-type]
        self._envelope = msgspec.json.Decoder(Envelope)
        self._elements = msgspec.json.Decoder(list[Raw])
        self._result_type = result_type

    def decode(self, response: HttpResponse, skipped: Counter[str]) -> Sequence[L]:
        """The series; SourceError if the response as a whole cannot be used."""
        return self.decode_piece(self._data(response).result, skipped)

    def decode_piece(self, result: Raw | bytes, skipped: Counter[str]) -> Sequence[L]:
        """The series of a JSON array."""
        try:
            return self._all.decode(result)
        except UNREADABLE:
            return self._decode_each(result, skipped)

    def _data(self, response: HttpResponse) -> Data:
        try:
            envelope = self._envelope.decode(response.body)
        except UNREADABLE:
            raise _not_prometheus(response) from None
        if response.status != 200 or envelope.status != "success" or envelope.data is None:
            raise _query_error(response.status, envelope.error or "no reason given")
        if warnings := [each for each in envelope.warnings or () if not each.startswith(INFO_PREFIX)]:
            raise SourceError(f"Prometheus warns about its own response: {_short(warnings[0])}", "check its log")
        if envelope.data.resultType != self._result_type:
            found = _short(envelope.data.resultType)
            remedy = "write a query that returns one value per node"
            raise SourceError(f"the result is a {found}, not a {self._result_type}", remedy, invalid=True)
        return envelope.data

    def _decode_each(self, result: Raw | bytes, skipped: Counter[str]) -> Sequence[L]:
        try:
            elements = self._elements.decode(result)
        except UNREADABLE:
            raise SourceError("the response has no list of series", CHECK_URL, invalid=True) from None
        series: list[L] = []
        for element in elements:
            try:
                series.append(self._one.decode(element))
            except UNREADABLE:
                skipped[MALFORMED] += 1
        return series


NodeSeries, PodSeries = Series[dict[str, str]], Series[PodLabels]
NodeRangeSeries, PodRangeSeries = RangeSeries[dict[str, str]], RangeSeries[PodLabels]
# By whether the series are of pods.
VECTOR_DECODERS: dict[bool, ResponseDecoder[Any]] = {
    True: ResponseDecoder(PodSeries, "vector"),
    False: ResponseDecoder(NodeSeries, "vector"),
}
MATRIX_DECODERS: dict[bool, ResponseDecoder[Any]] = {
    True: ResponseDecoder(PodRangeSeries, "matrix"),
    False: ResponseDecoder(NodeRangeSeries, "matrix"),
}


def _not_prometheus(response: HttpResponse) -> SourceError:
    """The error for a response that is not from Prometheus' API."""
    if response.status in (301, 302, 303, 307, 308):
        return SourceError(f"the url redirects ({response.status})", "use the address that it redirects to")
    if response.status != 200:
        remedy = TRY_TLS if response.status == 400 else REMEDIES.get(response.status, CHECK_URL)
        return SourceError(f"the response is HTTP {response.status}", remedy, transient=response.status >= 500)
    return SourceError(f"the response is not JSON ({_short(response.content_type)})", CHECK_URL, invalid=True)


def _query_error(status: int, error: str) -> SourceError:
    kind = InvalidQuery if status == 400 and "parse error" in error else SourceError
    return kind(f"Prometheus rejected the query ({status}): {_short(error)}", REMEDIES.get(status, ""), status >= 500)


def _short(text: str) -> str:
    return printable(text[:MAX_MESSAGE_LENGTH])


class SeriesOwners(NamedTuple):
    """Which node or pod each series belongs to (None if its name is invalid), and which series hold timestamps."""

    names: Callable[[SeriesList], list[Owner]]
    is_time: Callable[[Any], bool]


def to_reading(query: Query, series: SeriesList, owners: SeriesOwners, now: float, skipped: Counter[str]) -> Reading:
    """The series of one response as a reading; what is dropped is added to `skipped`."""
    builder = ReadingBuilder(query, owners, skipped)
    builder.add(series)
    return builder.finish(now)


class ReadingBuilder:
    """Keeps of each series its owner and its number, so that labels need not be in memory all at once."""

    def __init__(self, query: Query, owners: SeriesOwners, skipped: Counter[str]) -> None:
        self.example: Any = None  # the first series
        self._query, self._owners, self._skipped = query, owners, skipped
        self._names: list[Owner] = []
        self._numbers: list[float] = []
        self._unreadable: dict[int, str] = {}  # texts that are no finite number, by position
        self._times: dict[Owner, float] = {}
        self._ambiguous: set[Owner] = set()

    def add(self, series: SeriesList) -> None:
        """Take in some series of the response."""
        if not series:
            return
        self.example = self.example or series[0]
        values, timestamps = _split_times(series, self._owners.is_time)
        for name, each in zip(self._owners.names(timestamps), timestamps, strict=True):
            if name in self._times:
                self._ambiguous.add(name)
            self._times[name] = parse_number(each.value.value, 1.0)
        self._names += self._owners.names(values)
        for each in values:
            number = parse_number(each.value.value, self._query.scale)
            if number != number:
                self._unreadable[len(self._numbers)] = each.value.value[:MAX_MESSAGE_LENGTH]
            self._numbers.append(number)

    def __len__(self) -> int:
        return len(self._names)

    def finish(self, now: float) -> Reading:
        """All of it as a reading; what is dropped is added to `skipped`."""
        ambiguous = self._ambiguous | _duplicates(self._names)
        names: list[str] = []
        amounts: list[float] = []
        measured: list[float] = []
        latest = now + MAX_CLOCK_SKEW
        for index, (name, number) in enumerate(zip(self._names, self._numbers, strict=True)):
            at = self._times.get(name, 0.0)
            if number == number and 0.0 < at <= latest and isinstance(name, str) and name not in ambiguous:
                names.append(name)
                amounts.append(number)
                measured.append(at)
            else:
                self._skipped[_reason(name, name in ambiguous, self._unreadable.get(index, ""), number, at)] += 1
        skipped = tuple(sorted(self._skipped.items()))
        return self._query.make_reading(tuple(names), tuple(amounts), tuple(measured), skipped)


def _split_times(series: SeriesList, is_time: Callable[[Any], bool]) -> tuple[SeriesList, SeriesList]:
    flags = [is_time(each) for each in series]
    values = [each for each, flag in zip(series, flags, strict=True) if not flag]
    return values, [each for each, flag in zip(series, flags, strict=True) if flag]


def _duplicates(names: list[Owner]) -> frozenset[Owner]:
    if len(set(names)) == len(names):  # the usual case, and cheap to tell
        return frozenset()
    return frozenset(name for name, count in Counter(names).items() if count > 1)


def parse_number(text: str, scale: float) -> float:
    """The number, scaled; NaN if it is not a finite number."""
    try:
        number = float(text) * scale
    except ValueError:
        return math.nan
    # Only Python accepts 1_000.
    return number if number - number == 0.0 and "_" not in text else math.nan


def _reason(name: Owner, ambiguous: bool, text: str, number: float, at: float) -> str:
    """Why a value is dropped."""
    if not isinstance(name, str):
        return UNNAMED if name is None else name.value
    if ambiguous:
        return MatchFailure.AMBIGUOUS.value
    if number == number:
        return FUTURE if at > 0.0 else NO_TIME
    return INFINITE if _INFINITE.fullmatch(text) else NOT_A_NUMBER


def _pod_names(series: SeriesList) -> list[Owner]:
    """namespace/name; None for an incomplete name, or one that two pods could share."""
    names = [f"{each.metric.namespace}/{each.metric.pod}" for each in series]
    return [name if name.count("/") == 1 and name[0] != "/" != name[-1] else None for name in names]


POD_OWNERS = SeriesOwners(_pod_names, lambda each: each.metric.trimtab_of == TIME)


def node_owners(matcher: NodeMatcher) -> SeriesOwners:
    match = matcher.match
    return SeriesOwners(
        lambda series: [match(each.metric) for each in series],
        lambda each: each.metric.get(SERIES_KIND_LABEL) == TIME,
    )

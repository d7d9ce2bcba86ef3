"""Decides what an answer of Prometheus says: its series, or why none is to be believed; leaves whose they are to others.

A whole answer is decoded at once; only where that fails is it taken apart, so that one broken series costs itself alone.
Warnings mean that Prometheus itself does not vouch for the whole of it, so nothing of it is used.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from trimtab.config.diagnostics import printable
from trimtab.sources.interface import SourceError
from trimtab.sources.prometheus.client import HttpResponse
from trimtab.wire.decoding import NULL, UNREADABLE

MALFORMED = "malformed"
MAX_MESSAGE_LENGTH = 300
INFO_PREFIX = "PromQL info"  # Prometheus before 2.54 puts these among the warnings
SERIES_KIND_LABEL = "trimtab_of"  # the label that tells values from times in one answer

CHECK_URL = "give the address of a Prometheus, without /graph or /api/v1"
TRY_TLS = "write https:// if it speaks TLS"  # where Prometheus dislikes a query it says so in JSON
REMEDIES = {
    400: "correct the query",
    401: "check bearerTokenFile or basicAuth",
    403: "check bearerTokenFile or basicAuth, and what they allow",
    404: CHECK_URL,
    422: "correct the query",
}


class InvalidQuery(SourceError):
    """Prometheus cannot read the query: asking again does not help, whatever is measured."""


class Point(Struct, frozen=True, gc=False, array_like=True, forbid_unknown_fields=True):
    """A moment and the number as text, as Prometheus writes both."""

    at: float
    value: str


class PodLabels(Struct, frozen=True, gc=False):
    """All that matters of a pod's series; other labels are not even decoded."""

    namespace: str = ""
    pod: str = ""
    trimtab_of: str = ""


L = TypeVar("L")


class Series(Struct, Generic[L], frozen=True, gc=False):
    """One element of an instant vector."""

    metric: L
    value: Point


class RangeSeries(Struct, Generic[L], frozen=True, gc=False):
    """One element of a range vector."""

    metric: L
    values: tuple[Point, ...]


NodeSeries, PodSeries = Series[dict[str, str]], Series[PodLabels]
NodeRangeSeries, PodRangeSeries = RangeSeries[dict[str, str]], RangeSeries[PodLabels]


class Data(Struct, frozen=True):
    resultType: str = ""
    result: Raw = NULL


class Envelope(Struct, frozen=True):
    status: str
    data: Data | None = None
    error: str | None = None
    warnings: tuple[str, ...] | None = None


class ResponseDecoder(Generic[L]):
    """Reads the series of one shape out of answers of one type."""

    def __init__(self, shape: type[L], wanted: str) -> None:
        self._one = msgspec.json.Decoder(shape)
        self._all: msgspec.json.Decoder[Sequence[L]] = msgspec.json.Decoder(list[shape])  # type: ignore[valid-type]
        self._envelope = msgspec.json.Decoder(Envelope)
        self._pieces = msgspec.json.Decoder(list[Raw])
        self._wanted = wanted

    def decode(self, response: HttpResponse, skipped: Counter[str]) -> Sequence[L]:
        """The series; SourceError where the answer as a whole is not to be believed."""
        data = self._data(response)
        try:
            return self._all.decode(data.result)
        except UNREADABLE:
            return self._decode_each(data.result, skipped)

    def _data(self, response: HttpResponse) -> Data:
        try:
            envelope = self._envelope.decode(response.body)
        except UNREADABLE:
            raise _not_prometheus(response) from None
        if response.status != 200 or envelope.status != "success" or envelope.data is None:
            raise _query_error(response.status, envelope.error or "it gives no reason")
        if warnings := [each for each in envelope.warnings or () if not each.startswith(INFO_PREFIX)]:
            raise SourceError(f"Prometheus warns of its own answer: {_short(warnings[0])}", "see its log")
        if envelope.data.resultType != self._wanted:
            found = _short(envelope.data.resultType)
            raise SourceError(
                f"the answer is a {found}, not a {self._wanted}", "write a query that gives one value a node"
            )
        return envelope.data

    def _decode_each(self, result: Raw, skipped: Counter[str]) -> Sequence[L]:
        try:
            pieces = self._pieces.decode(result)
        except UNREADABLE:
            raise SourceError("the answer holds no list of series", CHECK_URL) from None
        found: list[L] = []
        for piece in pieces:
            try:
                found.append(self._one.decode(piece))
            except UNREADABLE:
                skipped[MALFORMED] += 1
        return found


VECTOR_DECODERS: dict[bool, ResponseDecoder[Any]] = {
    True: ResponseDecoder(PodSeries, "vector"),
    False: ResponseDecoder(NodeSeries, "vector"),
}
MATRIX_DECODERS: dict[bool, ResponseDecoder[Any]] = {
    True: ResponseDecoder(PodRangeSeries, "matrix"),
    False: ResponseDecoder(NodeRangeSeries, "matrix"),
}


def _not_prometheus(response: HttpResponse) -> SourceError:
    """Whatever answers there, it is not Prometheus, or not now."""
    if response.status in (301, 302, 303, 307, 308):
        return SourceError(f"the address redirects ({response.status})", "give the address that it leads to")
    if response.status != 200:
        passing = response.status >= 500
        advice = TRY_TLS if response.status == 400 else REMEDIES.get(response.status, CHECK_URL)
        return SourceError(f"the answer is HTTP {response.status}", advice, passing)
    return SourceError(f"the answer is not JSON ({_short(response.content_type)})", CHECK_URL)


def _query_error(status: int, error: str) -> SourceError:
    kind = InvalidQuery if status == 400 and "parse error" in error else SourceError
    return kind(f"Prometheus refuses ({status}): {_short(error)}", REMEDIES.get(status, ""), status >= 500)


def _short(text: str) -> str:
    return printable(text[:MAX_MESSAGE_LENGTH])

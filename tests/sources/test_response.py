"""Decoding responses: rows D2, D5, D6, D7 and a collection of malformed responses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sources.fake_prometheus import (
    NOW,
    fake_prometheus,
    read_once,
    respond_with,
    series,
    values_by_name,
    vector,
)
from trimtab.config.trimtab.settings import BuiltinMetric, QuerySettings, QueryUnit
from trimtab.core.model.readings import Subject, Unit
from trimtab.sources.interface import SourceError

GOOD = series({"node": "a"}, "100")


async def read_one(*found: Any, **settings: Any) -> tuple[dict[str, float], dict[str, int]]:
    """Values and reasons of a response with one valid series and these."""
    scrape = await read_once(vector(GOOD, *found), **settings)
    assert 1 == len(scrape.readings)
    return values_by_name(scrape.readings[0]), dict(scrape.readings[0].skipped)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("NaN", "not a number"),
        ("", "not a number"),
        ("abc", "not a number"),
        ("1_000", "not a number"),
        ("+Inf", "infinite"),
        ("-Inf", "infinite"),
        ("1e999", "infinite"),
        (None, "malformed"),
        (12, "malformed"),
        ([], "malformed"),
    ],
)
async def test_d5_values_that_are_not_numbers_are_dropped(value: Any, reason: str) -> None:
    """The node is left out and counted by reason; the other nodes are not affected."""
    assert ({"a": 100.0}, {reason: 1}) == await read_one(series({"node": "b"}, value))


@pytest.mark.parametrize(
    ("body", "invalid"),
    [
        (b"<html>Sign in</html>", True),
        (b'{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}', True),
        (b'{"status":"success","data":{"resultType":"vector","result":7}}', True),
        (vector(series({"node": "a"}, "NaN")), True),
        (vector(series({"node": "a"}, "7", NOW + 3600)), True),
        (vector(), False),
        (vector(series({"node": "stranger"}, "7")), False),
        (vector(series({"node": "a"}, "7", None)), False),
        (b'{"status":"error","errorType":"timeout","error":"query timed out"}', False),
        (vector(series({"node": "a"}, "7"), warnings=["a remote store is missing"]), False),
    ],
)
async def test_nonsense_is_told_from_missing_data(body: bytes, invalid: bool) -> None:
    """Only values that cannot be true, and answers that are none, make earlier samples of the query doubtful."""
    with pytest.raises(SourceError) as caught:
        await read_once(body)
    assert invalid is caught.value.invalid


@pytest.mark.parametrize("value", ["-3", "1e308", "0"])
async def test_d5_numbers_are_validated_by_the_core(value: str) -> None:
    """The source passes on any number, plausible for its node or not."""
    assert ({"a": 100.0, "b": float(value)}, {}) == await read_one(series({"node": "b"}, value))


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        (None, "no time"),
        ("NaN", "no time"),
        ("soon", "no time"),
        (-5, "no time"),
        (0, "no time"),
        (NOW + 3600, "future"),
        (1e300, "future"),
    ],
)
async def test_a_value_without_a_valid_time_is_dropped(at: Any, reason: str) -> None:
    """A value without a timestamp, or with one in the future, does not count."""
    assert ({"a": 100.0}, {reason: 1}) == await read_one(series({"node": "b"}, "7", at))


@pytest.mark.parametrize(
    "value", [[NOW], [NOW, "1", "2"], ["1", NOW], "1", 1, None, {}, [str(NOW), "1"], [NOW, {"x": 1}]]
)
async def test_a_malformed_series_costs_only_itself(value: Any) -> None:
    """The others are read."""
    odd = [{"metric": {"node": "b", "trimtab_of": "value"}, "value": value}]
    assert ({"a": 100.0}, {"malformed": 1}) == await read_one(odd)


@pytest.mark.parametrize(
    "label",
    ["", "worker", "ä", "x" * 5000, 'a"} or vector(1) #', "a\\", "a\n", "$", "a\0", "\u202ea"],
)
async def test_unknown_names_do_not_match(label: str) -> None:
    """A series whose node label is not a known name is unmatched."""
    assert ({"a": 100.0}, {"unmatched": 1}) == await read_one(series({"node": label}, "7"))


async def test_a_series_without_labels_does_not_match() -> None:
    """No label, no node."""
    assert ({"a": 100.0}, {"unmatched": 1}) == await read_one(series({}, "7"))


async def test_d7_two_series_for_one_node_are_dropped() -> None:
    """Nothing says which is right, so neither counts, even if one of them is not a number."""
    twice = series({"instance": "10.0.0.2:9100"}, "7"), series({"instance": "10.0.0.2:9101"}, "8")
    assert ({"a": 100.0}, {"ambiguous": 2}) == await read_one(*twice)
    assert ({"a": 100.0}, {"ambiguous": 2}) == await read_one(twice[0], series({"node": "b"}, "NaN"))


async def test_d7_contradictory_labels_are_dropped() -> None:
    """Series whose labels point at two nodes count for neither."""
    crossed = series({"node": "b", "instance": "10.0.0.1:9100"}, "7")
    assert ({"a": 100.0}, {"ambiguous": 1}) == await read_one(crossed)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'"success"',
        b"<html>Prometheus</html>",
        b'{"status":"success"}',
        b'{"status":"success","data":null}',
        b'{"status":"success","data":{"resultType":"scalar","result":[1,"2"]}}',
        b'{"status":"success","data":{"resultType":"string","result":[1,"2"]}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
        b'{"status":"success","data":{"resultType":"vector","result":{}}}',
        b'{"status":"success","data":{"resultType":"vector","result":null}}',
        b'{"status":"success","data":{"resultType":"vector","result":[]}}',
        b'{"status":"error","errorType":"internal","error":"boom"}',
        b'{"status":"success","data":{"resultType":"vector","result":[',
        b'{"status":"success","data":{"resultType":"vector","result":[' + b"[" * 100_000,
        b'{"status":' + b"9" * 5000 + b"}",
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"\xff"},"value":[1,"2"]}]}}',
        vector(GOOD, warnings=["partial response"]),
    ],
    ids=lambda body: body[:70],
)
async def test_d2_d6_an_invalid_response_is_a_failure(body: bytes) -> None:
    """Wrong types, warnings, errors with 200, garbage and empty vectors fail: they never mean that nodes are idle."""
    with pytest.raises(SourceError):
        await read_once(body)


@pytest.mark.parametrize("token", ["NaN", "Infinity", "-Infinity", "9" * 5000, "[" * 90000, '"\\ud800"'])
async def test_invalid_json_tokens_never_become_a_value(token: str) -> None:
    """Bare NaN, endless numbers and lone surrogates cost at most the response."""
    body = vector(GOOD).replace(b'"100"', token.encode())
    with pytest.raises(SourceError):
        await read_once(body)


async def test_repeated_keys_do_no_harm() -> None:
    """The last one counts, as usual in JSON."""
    body = vector(GOOD).replace(b'"status": "success"', b'"status": "error", "status": "success"')
    assert {"a": 100.0} == values_by_name((await read_once(body)).readings[0])


async def test_infos_are_not_warnings() -> None:
    """Older versions report infos about metric names as warnings."""
    body = vector(GOOD, warnings=["PromQL info: metric might not be a counter"], infos=["as above"])
    assert {"a": 100.0} == values_by_name((await read_once(body)).readings[0])


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (204, "204"),
        (301, "redirects"),
        (400, "https://"),
        (401, "bearerTokenFile"),
        (403, "403"),
        (404, "address"),
        (503, "503"),
    ],
)
async def test_other_statuses_have_a_remedy(status: int, says: str) -> None:
    """Each error names the status and the remedy."""
    async with fake_prometheus(respond_with(b"" if status == 204 else b"no", status, "text/html")) as (source, _):
        with pytest.raises(SourceError, match=says):
            await source.read()


async def test_the_error_of_prometheus_is_printed_on_one_line() -> None:
    """Without any control characters."""
    body = json.dumps({"status": "error", "errorType": "bad_data", "error": "parse error\n\x1b[31m at char 3"}).encode()
    async with fake_prometheus(respond_with(body, 400)) as (source, _):
        with pytest.raises(SourceError, match="parse error") as caught:
            await source.read()
    assert str(caught.value).isprintable()


async def test_if_nothing_matches_the_error_has_an_example() -> None:
    """The labels of one series are shown with the remedy."""
    with pytest.raises(SourceError, match=r"10\.9\.9\.9.*nodeLabel"):
        await read_once(vector(series({"instance": "10.9.9.9:9100"}, "1")))


@pytest.mark.parametrize(
    ("labels", "reason"),
    [
        ({"namespace": "x"}, "unnamed"),
        ({"pod": "x"}, "unnamed"),
        ({"namespace": "x/y", "pod": "z"}, "unnamed"),
        ({"namespace": "x", "pod": "y/z"}, "unnamed"),
        ({"namespace": "", "pod": "z"}, "unnamed"),
        ({"namespace": "shop", "pod": "web", "container": "2"}, "ambiguous"),
    ],
)
async def test_pods_are_identified_by_namespace_and_name(labels: dict[str, str], reason: str) -> None:
    """Incomplete names and duplicates are left out."""
    good = series({"namespace": "shop", "pod": "web"}, "5"), series({"namespace": "shop", "pod": "api"}, "6")
    scrape = await read_once(vector(*good, series(labels, "7")), metrics=(BuiltinMetric.POD_MEMORY,))
    reading = scrape.readings[0]
    kept = {"shop/api": 6.0} if reason == "ambiguous" else {"shop/web": 5.0, "shop/api": 6.0}
    count = 2 if reason == "ambiguous" else 1
    assert (Subject.PODS, kept, ((reason, count),)) == (reading.subject, values_by_name(reading), reading.skipped)


async def test_overflow_by_scaling_is_infinite() -> None:
    """A number that becomes infinite only by its unit is left out like any other infinite one."""
    own = QuerySettings("cpu", "x", unit=QueryUnit.CORES)
    scrape = await read_once(vector(GOOD, series({"node": "b"}, "1e308")), metrics=(), queries=(own,))
    assert ({"a": 100_000.0}, (("infinite", 1),)) == (values_by_name(scrape.readings[0]), scrape.readings[0].skipped)
    assert Unit.ABSOLUTE is scrape.readings[0].unit

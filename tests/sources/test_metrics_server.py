"""The metrics-server source, and row D14: a missing API is a failure with a remedy."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import pytest

from trimtab.config.trimtab.settings import MetricsServerSettings
from trimtab.core.model.readings import Subject, Unit
from trimtab.sources.interface import Get, Scrape, SourceError
from trimtab.sources.metrics_server import THREAD_ABOVE_BYTES, MetricsServerSource

ROOT = "/apis/metrics.k8s.io/v1beta1"
AT = "2026-11-16T09:30:00Z"
MOMENT = datetime.fromisoformat(AT).timestamp()


def node(name: str, **changes: Any) -> dict[str, Any]:
    usage = {"cpu": "1234567890n", "memory": "2048Ki"}
    return {"metadata": {"name": name}, "timestamp": AT, "window": "20.1s", "usage": usage, **changes}


def pod(name: str, *usages: Mapping[str, str], namespace: str = "shop", **changes: Any) -> dict[str, Any]:
    containers = [{"name": f"c{number}", "usage": usage} for number, usage in enumerate(usages)]
    meta = {"name": name, "namespace": namespace}
    return {"metadata": meta, "timestamp": AT, "window": "15s", "containers": containers, **changes}


def body(*items: Any, more: str = "") -> bytes:
    return json.dumps({"kind": "List", "metadata": {"continue": more}, "items": items}).encode()


def serving(answers: Mapping[str, tuple[int, bytes]]) -> Get:
    async def get(path: str) -> tuple[int, bytes]:
        return answers[path.removeprefix(ROOT)]

    return get


async def read(nodes: tuple[int, bytes], pods: tuple[int, bytes] = (200, body())) -> Scrape:
    get = serving({"/nodes": nodes, "/pods": pods})
    return await MetricsServerSource(MetricsServerSettings("ms"), get).read()


async def test_nodes_are_read_in_the_units_of_requests() -> None:
    """Millicores and bytes, with the timestamp of each item and the window of the CPU."""
    scrape = await read((200, body(node("a"), node("b", usage={"cpu": "250m", "memory": "1Gi"}))))
    cpu, memory = scrape.readings[:2]
    assert (("a", "b"), (1234.56789, 250.0), (MOMENT, MOMENT)) == (cpu.names, cpu.values, cpu.measured)
    assert (("a", "b"), (2048.0 * 1024, float(1 << 30))) == (memory.names, memory.values)
    assert (20.1, 0.0, Unit.ABSOLUTE, "ms/nodes") == (cpu.window, memory.window, cpu.unit, cpu.source)


async def test_a_pod_is_the_sum_of_its_containers() -> None:
    """By namespace and name."""
    usages = {"cpu": "100m", "memory": "10Mi"}, {"cpu": "50000000n", "memory": "1Mi"}
    cpu, memory = (await read((200, body(node("a"))), (200, body(pod("web", *usages))))).readings[2:]
    assert (Subject.PODS, ("shop/web",), (150.0,)) == (cpu.subject, cpu.names, cpu.values)
    assert (("shop/web",), (11.0 * (1 << 20),)) == (memory.names, memory.values)


@pytest.mark.parametrize(
    "odd",
    [
        None,
        7,
        {},
        node(""),
        node("b", timestamp=None),
        node("b", timestamp="yesterday"),
        node("b", timestamp="2026-11-16T09:30:00"),
        node("b", usage={"cpu": "1"}),
        node("b", usage={"cpu": "1", "memory": None}),
        node("b", usage={"cpu": "-1", "memory": "1"}),
        node("b", usage={"cpu": "NaN", "memory": "1"}),
        node("b", usage={"cpu": "٣n", "memory": "1"}),
        node("b", usage={"cpu": "9" * 400 + "n", "memory": "1"}),
        node("b", usage={"cpu": "1", "memory": "9" * 400 + "Ki"}),
        node("b", usage={}),
        node("b", usage=None),
        pod("b"),
        pod("b", {"cpu": "1"}),
    ],
)
async def test_a_malformed_item_is_left_out(odd: Any) -> None:
    """It is counted, and the others are read; nothing missing becomes zero."""
    for reading in (await read((200, body(node("a"), odd)))).readings[:2]:
        assert (("a",), (("malformed", 1),)) == (reading.names, reading.skipped)


@pytest.mark.parametrize(
    ("status", "says"), [(404, "install metrics-server"), (503, "describe apiservice"), (403, "allow"), (500, "500")]
)
async def test_d14_a_missing_api_is_a_failure(status: int, says: str) -> None:
    """Each status comes with its remedy."""
    with pytest.raises(SourceError, match=says):
        await read((status, b"{}"), (status, b"{}"))


async def test_pods_may_fail_alone() -> None:
    """Nodes are still read, and the failed query is named."""
    scrape = await read((200, body(node("a"))), (403, b"{}"))
    assert (["ms/pods"], 2) == ([failure.query for failure in scrape.failures], len(scrape.readings))


@pytest.mark.parametrize(
    ("answer", "invalid"),
    [(b"", True), (b"no", True), (b"[]", True), (b'{"items":7}', True), (b'{"items":[{}]}', True), (body(), False)],
)
async def test_an_invalid_list_is_a_failure(answer: bytes, invalid: bool) -> None:
    """Neither an invalid list nor one without nodes means that nodes are idle; only the first voids what was read before."""
    failures = (await read((200, answer), (200, body()))).failures
    assert [("ms/nodes", invalid)] == [(query, error.invalid) for query, error in failures]


async def test_each_list_fails_for_its_own_reason() -> None:
    """Nonsense in one of them does not void what the other said."""
    failures = (await read((200, b"no"), (503, b""))).failures
    assert [("ms/nodes", True), ("ms/pods", False)] == [(query, error.invalid) for query, error in failures]
    with pytest.raises(SourceError, match="not available"):
        await read((503, b""), (503, b""))


async def test_d14_an_old_timestamp_is_passed_on() -> None:
    """The core sees how old each item is."""
    old = "2026-11-16T08:30:00Z"
    cpu = (await read((200, body(node("a"), node("b", timestamp=old))))).readings[0]
    assert (MOMENT, MOMENT - 3600) == cpu.measured


async def test_many_items_are_decoded_like_few() -> None:
    """In a thread or on the event loop, the reading is the same."""
    usage = {"cpu": "1m", "memory": "1Ki"}
    many = body(*(pod(f"web-{number}", usage) for number in range(1500)))
    cpu = (await read((200, body(node("a"))), (200, many))).readings[2]
    assert (tuple(f"shop/web-{number}" for number in range(1500)), (1.0,) * 1500) == (cpu.names, cpu.values)


async def test_pages_are_followed() -> None:
    """If the API server returns the list in pages, all of them count."""
    pages = {
        "/nodes": (200, body(node("a"), more="x/y=")),
        "/nodes?continue=x%2Fy%3D": (200, body(node("b"))),
        "/pods": (200, body()),
    }
    scrape = await MetricsServerSource(MetricsServerSettings("ms"), serving(pages)).read()
    assert ("a", "b") == scrape.readings[0].names


@pytest.mark.looptime
async def test_a_request_that_fails_or_hangs_is_a_failure() -> None:
    """An exception is reported by its type only, and waiting has a timeout."""

    async def broken(path: str) -> tuple[int, bytes]:
        raise ConnectionError("Bearer canary")

    async def silent(path: str) -> tuple[int, bytes]:
        await asyncio.sleep(10_000)
        raise AssertionError("never asked so long")

    with pytest.raises(SourceError, match="ConnectionError") as caught:
        await MetricsServerSource(MetricsServerSettings("ms"), broken).read()
    assert "canary" not in str(caught.value)
    with pytest.raises(SourceError, match="within 10 s"):
        await MetricsServerSource(MetricsServerSettings("ms"), silent).read()


async def test_it_has_no_history() -> None:
    """metrics-server keeps none."""
    source = MetricsServerSource(MetricsServerSettings("ms"), serving({}))
    assert [] == [each async for each in source.read_history(())]


async def test_a_large_list_is_decoded_like_a_small_one() -> None:
    """In a thread, so that the event loop is not blocked."""
    many = tuple(node(f"n-{number}", note="x" * 1000) for number in range(1200))
    answer = body(*many)
    assert len(answer) > THREAD_ABOVE_BYTES
    assert tuple(each["metadata"]["name"] for each in many) == (await read((200, answer))).readings[0].names

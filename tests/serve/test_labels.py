"""The labeller's endpoints: a status that can fail, and nodes in dynamic-Scheduler's format."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp import web

from tests.core.labelling.labeller_harness import Labeller, cpu_rule, node
from trimtab.core.engine import Engine
from trimtab.core.model.events import LabelDone, LabelFailed, LeaseAcquired, LeaseLost
from trimtab.core.settings import Settings
from trimtab.serve.health import Check
from trimtab.serve.labels import LabellerEndpoints, patches_check
from trimtab.serve.listener import listen, serve
from trimtab.serve.options import Address
from trimtab.serve.status import StatusPage

ANY = Address("127.0.0.1", 0, "--serve")


@asynccontextmanager
async def pages(engine: Engine, *checks: Check, ahead: float = 0.0) -> AsyncIterator[str]:
    app = web.Application()
    StatusPage((*checks, patches_check(engine))).register(app)
    LabellerEndpoints(engine, lambda at: at + ahead).register(app)
    async with serve(app, listen(ANY)) as port:
        yield f"http://127.0.0.1:{port}"


async def got(address: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(address) as response:
        return response.status, await response.text()


def engine_under_pressure(apply: bool = True) -> Engine:
    harness = Labeller(cpu_rule(), cpu_rule(name="slow", for_seconds=60.0), apply=apply)
    harness.sees(node("b"), node("a"), node("c"))
    harness.measures("cpu", a=3600, b=3900, c=100)
    harness.runs(5)
    return harness.engine


async def test_nodes_are_listed_in_the_old_form() -> None:
    """To the byte: fields in their order, sorted names, and the count."""
    async with pages(engine_under_pressure()) as base:
        expected = '{"type":"Label type=presure Nodes","num":2,"node_names":["a","b"]}'
        assert (200, expected) == await got(f"{base}/nodes")


async def test_who_observes_lists_those_that_would_be_marked() -> None:
    """In observe mode /nodes lists nodes that would be labelled."""
    async with pages(engine_under_pressure(apply=False)) as base:
        assert '"num":2,"node_names":["a","b"]' in (await got(f"{base}/nodes"))[1]
        assert '{"mode":"observe","all_marked":false,' in (await got(f"{base}/pressure"))[1]


async def test_pressure_tells_rule_state_value_and_time() -> None:
    """Every node that is not calm, for each rule, in wall time."""
    async with pages(engine_under_pressure(), ahead=3600.0) as base:
        text = (await got(f"{base}/pressure"))[1]
    assert '{"node":"b","rule":"cpu","state":"pressed","value":0.975,"since":4600.5}' in text
    assert '{"node":"a","rule":"slow","state":"rising","value":0.9,"since":4600.5}' in text
    assert '"node":"c"' not in text


async def test_status_says_ok_or_why_not() -> None:
    """200, or 503 with each failing check."""
    well, ill = Check("watch", lambda: None), Check("rules", lambda: "Node_mem was last read 99 s ago")
    async with pages(engine_under_pressure(), well) as base:
        assert (200, "ok") == await got(f"{base}/status")
    async with pages(engine_under_pressure(), well, ill) as base:
        assert (503, "rules: Node_mem was last read 99 s ago") == await got(f"{base}/status")


async def test_status_says_that_all_marks_are_refused() -> None:
    """With the server's message, until one is accepted or none is wanted any more; a standby sends none."""
    harness = Labeller(cpu_rule())
    harness.sees(node("a"), node("b"))
    harness.measures("cpu", a=3900, b=3900)
    async with pages(harness.engine, Check("watch", lambda: None)) as base:
        for instruction in harness.later():
            harness.tells(LabelFailed(instruction.node, "policy says\nno", harness.at, forbidden=True))
        status, text = await got(f"{base}/status")
        assert (503, True) == (
            status,
            text.startswith(r"labels: the API server rejects all patches (403): policy says\nno: "),
        )
        assert 1 == len(text.splitlines())
        harness.tells(LeaseLost(harness.at))
        assert (200, "ok") == await got(f"{base}/status")
        harness.tells(LeaseAcquired(2, harness.at))
        harness.later(61)  # tried again, and not answered yet
        assert 503 == (await got(f"{base}/status"))[0]
        harness.tells(LabelDone("a", harness.at))
        assert (200, "ok") == await got(f"{base}/status")


async def test_a_refusal_of_what_nobody_wants_any_more_is_past() -> None:
    """After the pressure has gone /status is ok again; a conflict is not a missing permission."""
    harness = Labeller(cpu_rule())
    harness.sees(node("a"))
    harness.measures("cpu", a=3900)
    async with pages(harness.engine) as base:
        harness.later()
        harness.tells(LabelFailed("a", "conflict", harness.at))
        assert (200, "ok") == await got(f"{base}/status")
        harness.later(2)
        harness.tells(LabelFailed("a", "no", harness.at, forbidden=True))
        assert 503 == (await got(f"{base}/status"))[0]
        harness.measures("cpu", a=100)
        harness.later(30)
        harness.later(61)
        assert (200, "ok") == await got(f"{base}/status")


async def test_without_rules_the_pages_are_empty() -> None:
    """An engine without rules has empty pages."""
    async with pages(Engine(Settings(()))) as base:
        assert '{"type":"Label type=presure Nodes","num":0,"node_names":[]}' == (await got(f"{base}/nodes"))[1]
        assert '{"mode":"off","nodes":[]}' == (await got(f"{base}/pressure"))[1]

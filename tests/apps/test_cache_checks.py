"""`trimtab doctor --compare` reports what a process does not know, twice, and nothing that is only late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from tests.kube.node_responses import listing, node
from trimtab.apps.doctor.apiserver_checks import ApiServer
from trimtab.apps.doctor.cache_checks import UnexpectedAnswer, compare_cache
from trimtab.apps.doctor.finding import Finding, Severity
from trimtab.wire.requests import Request

NODES = "/api/v1/nodes"


def page(objects: Mapping[str, int], path: str = NODES) -> dict[str, Any]:
    return {"kinds": [{"kind": "nodes", "path": path, "version": 50, "objects": objects}]}


async def compared(listings: list[FakeResponse], pages: list[dict[str, Any]]) -> Finding:
    """The finding, with what the API server and the process answer each time; the last answer is repeated."""

    def answer(request: Request) -> FakeResponse:
        return listings.pop(0) if len(listings) > 1 else listings[0]

    def fetch() -> Mapping[str, Any]:
        return pages.pop(0) if len(pages) > 1 else pages[0]

    (finding,) = await compare_cache(ApiServer(FakeTransport(answer), "https://x"), fetch, pause=0.0)
    return finding


async def test_equal_views() -> None:
    """Nothing to report, and the number of objects says that something was compared."""
    found = await compared([listing(50, node("a", 7))], [page({"u-a": 7})])
    assert (Severity.OK, "the process knows what the API server has: 1 objects") == (found.severity, found.message)


async def test_what_is_wrong_twice_is_a_problem() -> None:
    """A missing node, an old version and a deleted node, each named as well as it can be."""
    found = await compared([listing(50, node("a", 7), node("b", 9))], [page({"u-b": 8, "u-gone": 3})])
    assert Severity.PROBLEM == found.severity
    assert (
        "the process does not know a, knows an old version of b, still has u-gone, by UID, which are deleted"
        == found.message
    )


@pytest.mark.parametrize(
    "pages",
    [
        pytest.param([page({}), page({}), page({"u-a": 7})], id="it learns of the node later"),
        pytest.param([page({}), page({"u-a": 5}), page({"u-a": 8})], id="it learns of the change later"),
        pytest.param([page({}), page({"u-a": 7, "u-b": 3}), page({"u-a": 7})], id="it learns of the deletion later"),
        pytest.param(
            [page({}), page({"u-a": 5, "u-new": 51}), page({"u-a": 7, "u-new": 51})], id="newer than the list"
        ),
    ],
)
async def test_what_is_only_late_is_none(pages: list[dict[str, Any]]) -> None:
    """A process that has caught up by the second look has lost nothing."""
    assert Severity.OK == (await compared([listing(50, node("a", 7))], pages)).severity


async def test_what_is_deleted_meanwhile_is_not_missing() -> None:
    """The process may have seen the deletion before the first look."""
    found = await compared([listing(50, node("a", 7)), listing(60)], [page({})])
    assert Severity.OK == found.severity


async def test_a_kind_that_may_not_be_listed_is_a_warning() -> None:
    """It cannot be compared, which is no problem of the process."""
    refused = json_response({"kind": "Status", "message": "nodes is forbidden"}, 403)
    found = await compared([refused], [page({"u-a": 7})])
    assert (Severity.WARNING, "not compared: 403 nodes is forbidden") == (found.severity, found.message)


@pytest.mark.parametrize("answer", [{}, {"kinds": 7}, {"kinds": [{"path": NODES}]}])
async def test_another_program_is_not_compared(answer: dict[str, Any]) -> None:
    """A page of another shape is an error, not an empty view."""
    with pytest.raises(UnexpectedAnswer):
        await compared([listing(50)], [answer])

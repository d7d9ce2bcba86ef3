"""Listing a kind once: consistent pages, and what is tried again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kube.fake_transport import FakeResponse, FakeTransport, json_response
from trimtab.core.model.node import Node
from trimtab.kube import listing
from trimtab.kube.listing import ListError, list_all
from trimtab.kube.transport import Unreachable
from trimtab.wire.node import NodeReader
from trimtab.wire.requests import NODES, Request


def page(*names: str, more: str = "", version: str = "9") -> FakeResponse:
    items = [{"metadata": {"name": name}} for name in names]
    return json_response(
        {"kind": "NodeList", "metadata": {"resourceVersion": version, "continue": more}, "items": items}
    )


async def list_names(*answers: FakeResponse) -> tuple[list[str], list[Request]]:
    left = [*answers]
    transport = FakeTransport(lambda request: left.pop(0))
    found = await list_all(transport, NODES, NodeReader())
    return [each.name for each in found if isinstance(each, Node)], [request for _, request in transport.sent]


@pytest.fixture(autouse=True)
def no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_RETRY_AFTER", 0.0)


async def test_pages_are_joined() -> None:
    """The token of each page asks for the next one."""
    names, sent = await list_names(page("a", "b", more="next"), page("c"))
    assert ["a", "b", "c"] == names
    assert ["GET", "GET"] == [each.method for each in sent] and "continue=next" in sent[1].path


GONE = json_response({"kind": "Status", "message": "the continue token has expired", "code": 410}, 410)


@pytest.mark.parametrize(
    "answers",
    [
        (page("a", more="next"), GONE, page("a", "b")),
        (page("a", more="next"), page("c", version="10"), page("a", "b")),
        (json_response({"kind": "Status", "message": "busy"}, 429), page("a", "b")),
        (Unreachable("refused", sent=False), page("a", "b")),
    ],
)
async def test_what_may_pass_is_tried_again(answers: Any) -> None:
    """From the first page, so that all pages are of one version."""
    assert ["a", "b"] == (await list_names(*answers))[0]


async def test_a_refusal_is_final() -> None:
    """It is reported with the server's message."""
    with pytest.raises(ListError, match='403 User "ann" cannot list') as raised:
        await list_names(json_response({"kind": "Status", "message": 'User "ann" cannot list nodes'}, 403))
    assert raised.value.forbidden and not raised.value.not_served


@pytest.mark.parametrize(
    "answer", [json_response(b"<html>", 200), json_response({"kind": "Pod"}), json_response(b"", 404)]
)
async def test_anything_but_a_list_is_an_error(answer: FakeResponse) -> None:
    """A body that is not a list is never taken for an empty one."""
    with pytest.raises(ListError):
        await list_names(answer)


async def test_a_server_that_stays_away() -> None:
    """After a few attempts."""
    with pytest.raises(ListError, match="the API server cannot be reached: refused"):
        await list_names(*[Unreachable("refused", sent=False)] * listing.ATTEMPTS)

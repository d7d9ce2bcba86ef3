"""A transport that cannot write."""

from __future__ import annotations

import pytest

from tests.kube.fake_transport import FakeTransport, json_response
from trimtab.kube.transport import ReadOnlyTransport, Unreachable
from trimtab.wire.requests import Request


async def test_only_get_requests_are_sent() -> None:
    """Every other one is refused before anything is sent, also as a stream."""
    inner = FakeTransport(lambda request: json_response({"kind": "Status"}))
    transport = ReadOnlyTransport(inner)
    assert 200 == (await transport.send(Request("GET", "/version"), 1.0)).status
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        with pytest.raises(Unreachable, match=f"not sent: {method} /x, because this command only reads") as raised:
            await transport.send(Request(method, "/x"), 1.0)
        assert not raised.value.sent
        with pytest.raises(Unreachable):
            transport.stream(Request(method, "/x"), 1.0)
    async with transport.stream(Request("GET", "/watch"), 1.0):
        pass
    assert ["/version"] == [each.path for _, each in inner.sent] and 1 == len(inner.watched)
    await transport.close()

"""A transport that sends nothing but GET requests, for commands that must not change anything."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

from trimtab.kube.transport.contract import MAX_RESPONSE_BYTES, Response, Stream, Transport, Unreachable, allow
from trimtab.wire.requests import Request


class ReadOnlyTransport:
    """Whatever else a program with this transport does, it cannot write."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport

    async def send(
        self,
        request: Request,
        timeout: float,
        max_bytes: int = MAX_RESPONSE_BYTES,
        may_send: Callable[[], bool] = allow,
    ) -> Response:
        _check(request)
        return await self._transport.send(request, timeout, max_bytes, may_send)

    def stream(self, request: Request, idle_timeout: float) -> AbstractAsyncContextManager[Stream]:
        _check(request)
        return self._transport.stream(request, idle_timeout)

    async def close(self) -> None:
        await self._transport.close()


def _check(request: Request) -> None:
    if request.method != "GET":
        raise Unreachable(f"not sent: {request.method} {request.path}, because this command only reads", sent=False)

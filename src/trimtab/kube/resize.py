"""Raises the CPU request of a running pod in place, through its subresource `resize`."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.core.model.events import ResizeDone
from trimtab.core.model.instructions import ResizePod
from trimtab.kube.surge import Send
from trimtab.wire.outcomes import OK
from trimtab.wire.resize import CannotResize, read_request, resize_request


async def resize_pod(resize: ResizePod, send: Send, now: Callable[[], float]) -> ResizeDone:
    reply = await send(read_request(resize))
    if reply.status == OK:
        try:
            reply = await send(resize_request(resize, reply.body))
        except CannotResize as error:
            return ResizeDone(resize.uid, now(), str(error))
    return ResizeDone(resize.uid, now(), "" if reply.status == OK else reply.message)

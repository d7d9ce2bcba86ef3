"""Lists all objects of one kind once, without watching them: for commands that may only get and list.

Every list is consistent, in pages of one version, as a reflector's are. An expired continue token starts the list again, and
what may pass by itself (a server that is busy or restarting) is tried again a few times.
"""

from __future__ import annotations

import asyncio
from typing import TypeVar

from trimtab.kube.reflector import FORBIDDEN, GONE, LIST_TIMEOUT, MAX_PAGE_BYTES, NOT_FOUND, PAGE_SIZE
from trimtab.kube.transport import Transport, Unreachable
from trimtab.wire.decoding import Malformed, read_status
from trimtab.wire.outcomes import Throttled, throttle
from trimtab.wire.requests import list_request
from trimtab.wire.watch import ListPage, Reader, Versioned, decode_list

T = TypeVar("T", bound=Versioned)

ATTEMPTS = 4
RETRY_AFTER = 1.0
MAX_RETRY_AFTER = 30.0
TRANSIENT = (GONE, 429, 500, 502, 503, 504)


class ListError(Exception):
    """A list that failed for good; `status` is 0 if there was no answer."""

    def __init__(self, message: str, status: int = 0, retry_after: float = RETRY_AFTER) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after

    @property
    def forbidden(self) -> bool:
        return self.status == FORBIDDEN

    @property
    def not_served(self) -> bool:
        return self.status == NOT_FOUND


async def list_all(transport: Transport, path: str, reader: Reader[T]) -> tuple[T | Malformed, ...]:
    """All objects at the path, or ListError."""
    for attempt in range(ATTEMPTS):
        try:
            return await _list_pages(transport, path, reader)
        except ListError as error:
            if attempt == ATTEMPTS - 1 or error.status not in (0, *TRANSIENT):
                raise
            await asyncio.sleep(min(error.retry_after, MAX_RETRY_AFTER))
    raise AssertionError("unreachable")


async def _list_pages(transport: Transport, path: str, reader: Reader[T]) -> tuple[T | Malformed, ...]:
    first = page = await _page(transport, path, reader, "")
    items = [*first.items]
    while page.continue_token:
        page = await _page(transport, path, reader, page.continue_token)
        if page.version != first.version:
            raise ListError(f"the first page is of version {first.version}, a later one of {page.version}")
        items += page.items
    return tuple(items)


async def _page(transport: Transport, path: str, reader: Reader[T], continue_token: str) -> ListPage[T]:
    request = list_request(path, limit=PAGE_SIZE, continue_token=continue_token)
    try:
        response = await transport.send(request, LIST_TIMEOUT, MAX_PAGE_BYTES)
    except Unreachable as error:
        raise ListError(f"the API server cannot be reached: {error}") from None
    if response.status != 200:
        throttled = throttle(response.status, response.headers, response.body)
        wait = float(throttled.seconds) if isinstance(throttled, Throttled) else RETRY_AFTER
        raise ListError(f"{response.status} {read_status(response.body).message}", response.status, wait)
    page = decode_list(response.body, reader)
    if isinstance(page, Malformed):
        raise ListError(page.error, response.status)
    return page

"""Lists all objects of one kind in consistent pages: for a reflector, or once for a command that does not watch."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TypeVar

from trimtab.kube.transport import Transport, Unreachable
from trimtab.wire.decoding import Malformed, read_status
from trimtab.wire.outcomes import FORBIDDEN, NOT_FOUND, Throttled, throttle
from trimtab.wire.requests import JSON, list_request
from trimtab.wire.watch import ListPage, Reader, Versioned, decode_list

T = TypeVar("T", bound=Versioned)

LIST_TIMEOUT = 75.0  # the server itself gives up after 60 s
PAGE_SIZE = 1_000
MAX_PAGE_BYTES = 2 << 30
GONE = 410
TRANSIENT = (GONE, 429, 500, 502, 503, 504)
ATTEMPTS = 4
RETRY_AFTER = 1.0  # unless the server says when
MAX_RETRY_AFTER = 30.0


class ListError(Exception):
    """A list that failed; `status` is 0 if there was no answer, or pages of several versions."""

    def __init__(self, message: str, status: int = 0, retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status, self.retry_after = status, retry_after

    @property
    def forbidden(self) -> bool:
        return self.status == FORBIDDEN

    @property
    def not_served(self) -> bool:
        return self.status == NOT_FOUND


def refusal(status: int, headers: Mapping[str, str], body: bytes) -> ListError:
    """What the server answered instead of a list or a watch."""
    throttled = throttle(status, headers, body)
    wait = float(throttled.seconds) if isinstance(throttled, Throttled) else 0.0
    return ListError(f"{status} {read_status(body).message}", status, wait)


async def list_pages(transport: Transport, path: str, reader: Reader[T], accept: str = JSON) -> ListPage[T]:
    """The whole list, page by page: decoding it in one go would delay decisions and binds.

    Raises Unreachable and ListError; an expired continue token (410) means another list.
    """
    first = page = await _page(transport, path, reader, "", accept)
    items = [*first.items]
    while page.continue_token:
        page = await _page(transport, path, reader, page.continue_token, accept)
        if page.version != first.version:
            raise ListError(f"the first page is of version {first.version}, a later one of {page.version}")
        items += page.items
    return ListPage(first.version, "", tuple(items))


async def _page(transport: Transport, path: str, reader: Reader[T], continue_token: str, accept: str) -> ListPage[T]:
    request = list_request(path, limit=PAGE_SIZE, continue_token=continue_token, accept=accept)
    response = await transport.send(request, LIST_TIMEOUT, MAX_PAGE_BYTES)
    if response.status != 200:
        raise refusal(*response)
    page = decode_list(response.body, reader)
    if isinstance(page, Malformed):
        raise ListError(page.error, response.status)
    return page


async def list_all(transport: Transport, path: str, reader: Reader[T]) -> tuple[T | Malformed, ...]:
    """All objects at the path, or ListError; what may pass by itself is tried again a few times, from the first page."""
    for attempt in range(ATTEMPTS):
        try:
            return (await list_pages(transport, path, reader)).items
        except Unreachable as error:
            failed = ListError(f"the API server cannot be reached: {error}")
        except ListError as error:
            failed = error
        if attempt == ATTEMPTS - 1 or failed.status not in (0, *TRANSIENT):
            raise failed from None
        await asyncio.sleep(min(failed.retry_after or RETRY_AFTER, MAX_RETRY_AFTER))
    raise AssertionError("unreachable")

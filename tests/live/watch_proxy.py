"""A TLS proxy before the API server that hides lines of watches from the client; everything else passes unchanged."""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from tests.live.fault_proxy import CHUNK, Fault, FaultProxy
from tools.controlplane.client import Document
from tools.controlplane.rig import Rig

WATCH = re.compile(r"GET (\S+?)\?\S*watch=1")

# The kind's path and a watch event: whether the client must not see it.
Hides = Callable[[str, Document], bool]


def nothing(path: str, event: Document) -> bool:
    return False


def everything(path: str, event: Document) -> bool:
    """Bookmarks, too: the watch is accepted and stays silent."""
    return True


@dataclass(frozen=True)
class _Watch(Fault):
    path: str = ""


class WatchProxy(FaultProxy):
    """Hides the lines that `hides` says, which may change at any time; `hidden` counts them by path."""

    def __init__(self, rig: Rig, hides: Hides = nothing) -> None:
        super().__init__(rig)
        self.hides, self.hidden = hides, Counter[str]()

    def _fault_of(self, line: str) -> Fault | None:
        found = WATCH.match(line)
        return _Watch("watch", path=found[1]) if found else super()._fault_of(line)

    async def _pass_on(self, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not isinstance(fault, _Watch):
            await super()._pass_on(fault, reader, writer)
            return
        watch = _WatchedStream(self, fault.path)
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                writer.write(watch.filtered(data))
                await writer.drain()
        writer.transport.abort()


class _WatchedStream:
    """The answer to a watch: its headers, and then lines in HTTP chunks that need not end where the lines do."""

    def __init__(self, proxy: WatchProxy, path: str) -> None:
        self._proxy, self._path = proxy, path
        self._in_headers, self._raw, self._text = True, b"", b""

    def filtered(self, data: bytes) -> bytes:
        """What of the answer so far may be passed on; each line in a chunk of its own."""
        self._raw += data
        passed = b""
        if self._in_headers:
            head, end, rest = self._raw.partition(b"\r\n\r\n")
            if not end:
                return b""
            self._in_headers, self._raw, passed = False, rest, head + end
        ended = self._take_chunks()
        *lines, self._text = self._text.split(b"\n")
        shown = [line + b"\n" for line in lines if not self._is_hidden(line)]
        passed += b"".join(b"%x\r\n%s\r\n" % (len(line), line) for line in shown)
        return passed + (b"0\r\n\r\n" if ended else b"")

    def _take_chunks(self) -> bool:
        """Move whole chunks from the raw bytes to the text; whether the last one was among them."""
        while True:
            size, end, rest = self._raw.partition(b"\r\n")
            length = int(size, 16) if end else 0
            if not end or len(rest) < length + 2:
                return False
            if not length:
                return True
            self._text, self._raw = self._text + rest[:length], rest[length + 2 :]

    def _is_hidden(self, line: bytes) -> bool:
        hidden = self._proxy.hides(self._path, json.loads(line))
        self._proxy.hidden[self._path] += hidden
        return hidden

"""A TLS proxy before the API server that injects faults, by request: slow, lost, doubled, refused and silent answers.

A `Fault` says what happens to requests that match a pattern (`"POST .*/binding"`), while it is set; `hits` counts them by the
fault's name, so that a test can prove that it happened. `cut` closes and refuses all connections; `mend` ends all faults.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
import ssl
import threading
from collections import Counter
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import yaml

from tools.controlplane.rig import Rig

T = TypeVar("T")
CHUNK = 1 << 14
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True)
class Fault:
    """What happens to matching requests; the first fault that matches and takes effect is the only one."""

    name: str
    pattern: str = ""  # of "METHOD path"; all requests if empty
    delay: float = 0.0  # seconds before the request is passed on
    bytes_per_second: float = 0.0  # of the answer
    statuses: tuple[int, ...] = ()  # answered with one of these, in turn, and not passed on
    lose: bool = False  # passed on, but the answer is lost and the connection closed
    late: float = 0.0  # the connection is closed at once, and the request passed on so many seconds later
    twice: bool = False  # passed on twice, the second time over another connection
    silent: bool = False  # passed on, and of the answer only the head arrives
    share: float = 1.0  # of the requests
    times: int = 1 << 30  # at most so many


class FaultProxy:
    """Runs on an event loop of its own thread inside the block."""

    def __init__(self, rig: Rig) -> None:
        self.hits: Counter[str] = Counter()
        self.connections = 0  # open now
        self.most_connections = 0
        self._faults: tuple[Fault, ...] = ()
        self._rig, self._random = rig, random.Random(7)
        self._loop = asyncio.new_event_loop()
        self._writers: set[asyncio.StreamWriter] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._refusing = False

    def __enter__(self) -> Self:
        credentials, server = self._rig.credentials, urlsplit(self._rig.url)
        self._inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._inside.load_cert_chain(credentials.server_cert, credentials.server_key)
        self._outside = ssl.create_default_context(cafile=str(credentials.ca_file))
        self._host, self._port = server.hostname or "", server.port or 443
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._call(self._start())
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _start(self) -> asyncio.Server:
        return await asyncio.start_server(self._connected, "127.0.0.1", 0, ssl=self._inside)

    async def _stop(self) -> None:
        self._server.close()
        await self._close_all()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def kubeconfig(self, original: Path) -> Path:
        """The same account, by way of the proxy."""
        found = yaml.safe_load(original.read_text())
        found["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        changed = original.with_name(f"{original.name}.{self.port}")
        changed.write_text(json.dumps(found))
        return changed

    # --- faults

    def inject(self, *faults: Fault) -> None:
        """From now on these, and no others; watches and other answers under way are not affected, except by `cut`."""
        self._faults = faults

    def cut(self) -> None:
        """Close every connection, and those to come."""
        self._refusing = True
        self.drop()

    def drop(self) -> None:
        """Close every connection; new ones are served."""
        self._call(self._close_all())

    def mend(self) -> None:
        """End all faults."""
        self._faults, self._refusing = (), False

    async def _close_all(self) -> None:
        for writer in [*self._writers]:
            writer.transport.abort()

    def _fault_of(self, line: str) -> Fault | None:
        for fault in self._faults:
            if re.match(fault.pattern, line) and self.hits[fault.name] < fault.times:
                if self._random.random() >= fault.share:
                    return None
                self.hits[fault.name] += 1
                return fault
        return None

    # --- connections

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        self.connections += 1
        self.most_connections = max(self.most_connections, self.connections)
        try:
            with suppress(OSError, asyncio.IncompleteReadError):
                if not self._refusing:
                    await self._serve(reader, writer)
        finally:
            self.connections -= 1
            self._writers.discard(writer)
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        server_reader, server = await self._dial()
        answering: asyncio.Task[None] | None = None
        try:
            while request := await _read_request(reader):
                if answering is not None:  # the answer to the last request has arrived, or there would be no new one
                    answering.cancel()
                    await asyncio.gather(answering, return_exceptions=True)
                fault = self._fault_of(_first_line(request)) or Fault("")
                if fault.statuses:
                    writer.write(_answer(fault.statuses[self.hits[fault.name] % len(fault.statuses)]))
                    answering = None
                    continue
                if fault.late:
                    self._background.add(asyncio.create_task(self._send_alone(request, fault.late)))
                    return
                await asyncio.sleep(fault.delay)
                if fault.twice:
                    await self._send_alone(request)
                server.write(request)
                answering = asyncio.create_task(self._pass_on(fault, server_reader, writer))
        finally:
            if answering is not None:
                answering.cancel()
            server.transport.abort()

    async def _dial(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(self._host, self._port, ssl=self._outside, server_hostname=self._host)

    async def _send_alone(self, request: bytes, delay: float = 0.0) -> None:
        """Over a connection of its own, until the answer begins."""
        await asyncio.sleep(delay)
        reader, writer = await self._dial()
        writer.write(request)
        await reader.read(CHUNK)
        writer.transport.abort()

    async def _pass_on(self, fault: Fault, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        silent = False
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                if fault.lose:
                    break
                if fault.silent:
                    data, silent = (b"" if silent else data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"), True
                writer.write(data)
                if fault.bytes_per_second:
                    await asyncio.sleep(len(data) / fault.bytes_per_second)
                await writer.drain()
        writer.transport.abort()


async def _read_request(reader: asyncio.StreamReader) -> bytes:
    """One whole request; empty at the end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""
    found = LENGTH.search(head)
    return head + (await reader.readexactly(int(found[1])) if found else b"")


def _first_line(request: bytes) -> str:
    return request.partition(b" HTTP/1.1\r\n")[0].decode("ascii", "replace")


def _answer(status: int) -> bytes:
    body = json.dumps({"kind": "Status", "status": "Failure", "code": status, "message": "injected"}).encode()
    extra = b"Retry-After: 1\r\n" if status == 429 else b""
    head = f"HTTP/1.1 {status} Injected\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n".encode()
    return head + extra + b"\r\n" + body

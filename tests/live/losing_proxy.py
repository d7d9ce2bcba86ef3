"""A TLS proxy before the API server that loses answers: the request takes effect, and the client never hears of it."""

from __future__ import annotations

import json
import re
import select
import socket
import ssl
import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import yaml

from tools.controlplane.rig import Rig

CHUNK = 1 << 16
TIMEOUT = 30.0


class LosingProxy:
    """Loses the answer to the first request that matches each pattern, by name; `lost` counts them."""

    def __init__(self, rig: Rig, **patterns: str) -> None:
        self.lost: Counter[str] = Counter()
        self._rig, self._patterns = rig, {name: re.compile(each.encode()) for name, each in patterns.items()}
        self._lock = threading.Lock()

    def __enter__(self) -> Self:
        credentials = self._rig.credentials
        self._inside = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._inside.load_cert_chain(credentials.server_cert, credentials.server_key)
        self._outside = ssl.create_default_context(cafile=str(credentials.ca_file))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def kubeconfig(self, original: Path) -> Path:
        """The same account, by way of the proxy."""
        found = yaml.safe_load(original.read_text())
        server = found["clusters"][0]["cluster"]
        self._server, server["server"] = urlsplit(server["server"]), f"https://127.0.0.1:{self._port}"
        changed = original.with_name(f"{original.name}.proxied")
        changed.write_text(json.dumps(found))
        return changed

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        with suppress(OSError):
            inner = self._inside.wrap_socket(client, server_side=True)
            host, port = self._server.hostname or "", self._server.port or 443
            outer = self._outside.wrap_socket(socket.create_connection((host, port)), server_hostname=host)
            try:
                self._pump(inner, outer)
            finally:
                inner.close()
                outer.close()

    def _pump(self, inner: ssl.SSLSocket, outer: ssl.SSLSocket) -> None:
        """By one thread, as a TLS connection must not be read and written at once. There is one request at a time on a
        connection, so what comes after an unlucky one answers it."""
        unlucky = False
        while True:
            ready = [each for each in (inner, outer) if each.pending()] or select.select([inner, outer], [], [])[0]
            for each in ready:
                data = _received(each)
                if data is None:
                    continue
                if not data or (each is outer and unlucky):
                    return
                unlucky = unlucky or (each is inner and self._is_unlucky(data))
                (outer if each is inner else inner).sendall(data)

    def _is_unlucky(self, data: bytes) -> bool:
        with self._lock:
            for name, pattern in self._patterns.items():
                if not self.lost[name] and pattern.match(data):
                    self.lost[name] += 1
                    return True
        return False


def _received(connection: ssl.SSLSocket) -> bytes | None:
    """None if only a part of a record has arrived, or one without data."""
    connection.settimeout(0)
    try:
        return connection.recv(CHUNK)
    except ssl.SSLWantReadError:
        return None
    finally:
        connection.settimeout(TIMEOUT)

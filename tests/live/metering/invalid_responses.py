"""A server that takes a Prometheus' place, at the same address, and returns invalid responses."""

from __future__ import annotations

import itertools
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tools.controlplane.client import Document


def _vector(*values: object) -> bytes:
    series: list[Document] = [{"metric": {"instance": "node-2"}, "value": value} for value in values]
    return json.dumps({"status": "success", "data": {"resultType": "vector", "result": series}}).encode()


BODIES = (
    b"<html><body>Sign in to continue</body></html>",
    b"",
    b'{"status": "success"',
    b'{"status": "success", "data": null}',
    b'{"status": "success", "data": {"resultType": "scalar", "result": [1, "2"]}}',
    b'{"status": "error", "errorType": "internal", "error": "out of sorts"}',
    bytes(range(256)),
    b"[" * 100_000,
    _vector([1e12, "1"]),  # measured in thirty thousand years
    _vector([1, "NaN"], ["now", "much"], None),
    _vector(),
)


class InvalidResponses:
    """Responds to every request with 200 and the next body, until the block ends; `sent` counts them."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rpartition(":")[2])
        self._next = itertools.cycle(BODIES)
        self._lock = threading.Lock()
        self.sent = 0

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), self._answering())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def all_sent_twice(self) -> bool:
        """Whether every body was sent twice."""
        return self.sent >= 2 * len(BODIES)

    def _answer(self) -> bytes:
        with self._lock:
            self.sent += 1
            return next(self._next)

    def _answering(self) -> type[BaseHTTPRequestHandler]:
        answer = self._answer

        class Page(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                body = answer()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST

            def log_message(self, *_: Any) -> None:
                """No log line per request."""

        return Page

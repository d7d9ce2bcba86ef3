"""Serves the metrics pages of simulated machines, and makes them fail.

    with Exporters(["node-0", "node-1"]) as exporters:
        exporters.set("node-0", cpu=0.9, memory=0.7)                    # fractions of the machine, from now on
        exporters.run("node-0", "default", "web", cpu=0.5, memory=GIB)  # cores and bytes, in addition to the load
        Prometheus(exporters.targets(instance="{name}:9100"), binaries=controlplane_or_skip())

    healthy ── freeze ───▶ frozen (the same samples with the same timestamps, for ever)
       │ ── fail ────────▶ failing (503)          each ends with `heal`
       │ ── blank ───────▶ blank (200, no samples)
       └── override ─────▶ healthy, but one metric is "NaN", "-3", "+Inf", or missing ("")

All machines share one port, with separate paths: /NAME/node (node-exporter), /NAME/cadvisor and /NAME/resource (kubelet,
scraped only on request: like the real one it repeats series of cAdvisor). The test chooses the `instance` label.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tests.live.metering.exposition import PAGES, lines
from tests.live.metering.machine import GIB, Machine, Usage
from tools.controlplane.prometheus import Target

JOBS = {"node": "node-exporter", "cadvisor": "cadvisor", "resource": "kubelet"}


@dataclass
class ExporterState:
    """A machine and the faults of its pages."""

    machine: Machine
    ip: str
    failing: bool = False
    blank: bool = False
    freezing: bool = False
    frozen: dict[str, str] = field(default_factory=dict)
    overrides: dict[str, str] = field(default_factory=dict)
    backfill: list[str] = field(default_factory=list)


class Server(ThreadingHTTPServer):
    """Daemon threads that do not log connections closed by a killed Prometheus."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore connection errors only."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Exporters:
    """The metrics pages of many machines, served by threads of the test."""

    def __init__(self, names: Iterable[str], cores: int = 8, memory: float = 16 * GIB, stamped: bool = False) -> None:
        """Machines of one size without load; their internal IPs count up from 10.64.0.1.

        Prometheus notes the time before it reads a page, so on a busy machine rates over short windows are a few percent
        off. Pages with timestamps make rates exact; but series that such a page no longer has are not marked stale, and
        remain for the lookback of a query.
        """
        self._stamped = stamped
        now = time.time()
        self._lock = threading.Lock()
        self._exporters: dict[str, ExporterState] = {}
        for index, name in enumerate(names):
            ip = f"10.64.{(index + 1) // 256}.{(index + 1) % 256}"
            self._exporters[name] = ExporterState(Machine(name, now, cores, memory), ip)

    def __enter__(self) -> Self:
        """Start serving."""
        self._server = Server(("127.0.0.1", 0), self._page_server())
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the machines, in order."""
        return tuple(self._exporters)

    def ip(self, name: str) -> str:
        """The internal IP for the machine's node."""
        return self._exporters[name].ip

    def targets(
        self,
        instance: str = "{ip}:9100",
        labels: Mapping[str, str] | None = None,
        pages: Iterable[str] = ("node", "cadvisor"),
        names: Iterable[str] | None = None,
    ) -> list[Target]:
        """Scrape targets; `instance` and label values may contain {name} and {ip}; an empty instance is the address."""
        address = f"127.0.0.1:{self._server.server_address[1]}"
        wanted = {**({"instance": instance} if instance else {}), **(labels or {})}
        found = []
        for name in self.names if names is None else names:
            said = {key: text.format(name=name, ip=self.ip(name)) for key, text in wanted.items()}
            found += [Target(address, f"/{name}/{page}", said, JOBS[page]) for page in pages]
        return found

    # Load.

    def set(self, name: str, **load: float) -> None:
        """Change the load: cpu, memory, cpu_waiting, memory_waiting, io_waiting, each a fraction; others stay."""
        with self._lock:
            machine = self._counted(name)
            machine.load = replace(machine.load, **load)

    def run(self, node: str, namespace: str, pod: str, cpu: float, memory: float, container: str = "main") -> None:
        """A container uses this many cores and bytes from now on."""
        with self._lock:
            self._counted(node).pods[namespace, pod, container] = Usage(cpu, memory)

    def restart(self, node: str, namespace: str, pod: str, container: str = "main") -> None:
        """Replace the container by a new one of the same name; the series of the old one end."""
        with self._lock:
            self._counted(node).restart((namespace, pod, container))

    def end(self, node: str, namespace: str, pod: str) -> None:
        """All containers of the pod end."""
        with self._lock:
            pods = self._counted(node).pods
            for key in [key for key in pods if key[:2] == (namespace, pod)]:
                del pods[key]

    def backfill(self, name: str, past: Iterable[tuple[float, float, float]]) -> None:
        """Tell a past with the next scrape of node-exporter's page, once: (seconds ago, CPU share, memory share)."""
        with self._lock:
            state, machine = self._exporters[name], self._counted(name)
            for reading in machine.past_readings(past):
                state.backfill.extend(lines("node", machine, reading, state.overrides, stamped=True))

    def _counted(self, name: str) -> Machine:
        machine = self._exporters[name].machine
        machine.reading(time.time())
        return machine

    # How they fall ill.

    def freeze(self, name: str) -> None:
        """Serve the next page for ever, with its timestamps."""
        self._exporters[name].freezing = True

    def fail(self, name: str) -> None:
        """Respond with 503."""
        self._exporters[name].failing = True

    def blank(self, name: str) -> None:
        """Respond with a page without samples."""
        self._exporters[name].blank = True

    def override(self, name: str, metric: str, value: str) -> None:
        """Replace every value of the metric; an empty string omits the metric."""
        self._exporters[name].overrides[metric] = value

    def heal(self, name: str) -> None:
        """Clear all faults."""
        with self._lock:
            state = self._exporters[name]
            state.failing = state.blank = state.freezing = False
            state.frozen, state.overrides = {}, {}

    # The pages.

    def page(self, path: str) -> tuple[int, str]:
        """The response to a scrape of /NAME/PAGE."""
        name, _, page = path.strip("/").partition("/")
        state = self._exporters.get(name)
        if state is None or page not in PAGES:
            return 404, "no such page\n"
        if state.failing:
            return 503, "out of order\n"
        with self._lock:
            if state.blank:
                return 200, ""
            if state.freezing and page not in state.frozen:
                state.frozen[page] = self._written(state, page, stamped=True)
            return 200, state.frozen.get(page) or self._written(state, page, self._stamped)

    def _written(self, state: ExporterState, page: str, stamped: bool) -> str:
        reading = state.machine.reading(time.time())
        text = "".join(lines(page, state.machine, reading, state.overrides, stamped))
        if page != "node" or not state.backfill:
            return text
        # The past comes after the present: Prometheus accepts a second sample of a series only with a timestamp.
        text, state.backfill = text + "".join(state.backfill), []
        return text

    def _page_server(self) -> type[BaseHTTPRequestHandler]:
        answer = self.page

        class Page(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                status, text = answer(self.path)
                self.send_response(status)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: Any) -> None:
                """No log line per scrape."""

        return Page

"""Decides how pretended machines are served to a Prometheus and how they fall ill; leaves what they used to machine.py.

    with Exporters(["node-0", "node-1"]) as exporters:
        exporters.set("node-0", cpu=0.9, memory=0.7)                    # shares of the machine, from now on
        exporters.run("node-0", "default", "web", cpu=0.5, memory=GIB)  # cores and bytes, on top of the load
        Prometheus(exporters.targets(instance="{name}:9100"), binaries=built())

    well ── freeze ──▶ frozen (the same samples with the same timestamps, for ever)
      │ ── fail ────▶ failing (503)          each goes back by `heal`
      │ ── blank ───▶ blank (200, no sample)
      └── lie ─────▶ well, but one metric says "NaN", "-3", "+Inf", or is left out ("")

All machines are served on one port, each under paths of its own: /NAME/node (node-exporter), /NAME/cadvisor and
/NAME/resource (kubelet, scraped only on demand: like the real one it repeats series of cAdvisor). `instance` is what a
test says it is.
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
    """A machine, and what ails its pages."""

    machine: Machine
    ip: str
    failing: bool = False
    blank: bool = False
    freezing: bool = False
    frozen: dict[str, str] = field(default_factory=dict)
    overrides: dict[str, str] = field(default_factory=dict)
    backfill: list[str] = field(default_factory=list)


class Server(ThreadingHTTPServer):
    """Threads that end with the test, and say nothing when a Prometheus that was killed leaves them."""

    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Only a scraper that is gone is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class Exporters:
    """node-exporter, cAdvisor and kubelet of many machines, in threads of the test."""

    def __init__(self, names: Iterable[str], cores: int = 8, memory: float = 16 * GIB, stamped: bool = False) -> None:
        """Machines of one size without load; their internal IPs count up from 10.64.0.1.

        A page is read a while after Prometheus noted the time: on a busy machine rates over short windows are some
        hundredths off. Stamped pages say when they were read, which makes rates exact; but what such a page no longer
        shows is not marked stale, and lingers for the lookback of a query.
        """
        self._stamped = stamped
        now = time.time()
        self._lock = threading.Lock()
        self._exporters: dict[str, ExporterState] = {}
        for index, name in enumerate(names):
            ip = f"10.64.{(index + 1) // 256}.{(index + 1) % 256}"
            self._exporters[name] = ExporterState(Machine(name, now, cores, memory), ip)

    def __enter__(self) -> Self:
        """Serve."""
        self._server = Server(("127.0.0.1", 0), self._page_server())
        threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """Serve no longer."""
        self._server.shutdown()
        self._server.server_close()

    @property
    def names(self) -> tuple[str, ...]:
        """The machines, in their order."""
        return tuple(self._exporters)

    def ip(self, name: str) -> str:
        """The internal IP that the machine's node is to have."""
        return self._exporters[name].ip

    def targets(
        self,
        instance: str = "{ip}:9100",
        labels: Mapping[str, str] | None = None,
        pages: Iterable[str] = ("node", "cadvisor"),
        names: Iterable[str] | None = None,
    ) -> list[Target]:
        """What to scrape; `instance` and the labels' values may hold {name} and {ip}; an empty one is the address."""
        address = f"127.0.0.1:{self._server.server_address[1]}"
        wanted = {**({"instance": instance} if instance else {}), **(labels or {})}
        found = []
        for name in self.names if names is None else names:
            said = {key: text.format(name=name, ip=self.ip(name)) for key, text in wanted.items()}
            found += [Target(address, f"/{name}/{page}", said, JOBS[page]) for page in pages]
        return found

    # What the machines do.

    def set(self, name: str, **load: float) -> None:
        """Change the load: cpu, memory, cpu_waiting, memory_waiting, io_waiting, each a share; others stay."""
        with self._lock:
            machine = self._counted(name)
            machine.load = replace(machine.load, **load)

    def run(self, node: str, namespace: str, pod: str, cpu: float, memory: float, container: str = "main") -> None:
        """A container uses so many cores and bytes from now on."""
        with self._lock:
            self._counted(node).pods[namespace, pod, container] = Usage(cpu, memory)

    def restart(self, node: str, namespace: str, pod: str, container: str = "main") -> None:
        """The container ends, and another one with its name begins at once; the series of the first are shown no more."""
        with self._lock:
            self._counted(node).restart((namespace, pod, container))

    def end(self, node: str, namespace: str, pod: str) -> None:
        """All containers of the pod are gone."""
        with self._lock:
            pods = self._counted(node).pods
            for key in [key for key in pods if key[:2] == (namespace, pod)]:
                del pods[key]

    def backfill(self, name: str, past: Iterable[tuple[float, float, float]]) -> None:
        """Tell a past with the next scrape of node-exporter's page, once: (seconds ago, CPU share, memory share)."""
        with self._lock:
            patient, machine = self._exporters[name], self._counted(name)
            for reading in machine.past_readings(past):
                patient.backfill.extend(lines("node", machine, reading, patient.overrides, stamped=True))

    def _counted(self, name: str) -> Machine:
        machine = self._exporters[name].machine
        machine.reading(time.time())
        return machine

    # How they fall ill.

    def freeze(self, name: str) -> None:
        """Serve what the next scrape finds for ever, with its timestamps."""
        self._exporters[name].freezing = True

    def fail(self, name: str) -> None:
        """Answer 503."""
        self._exporters[name].failing = True

    def blank(self, name: str) -> None:
        """Answer with a page without samples."""
        self._exporters[name].blank = True

    def override(self, name: str, metric: str, value: str) -> None:
        """Say this instead of every value of the metric, whatever it is; an empty one leaves the metric out."""
        self._exporters[name].overrides[metric] = value

    def heal(self, name: str) -> None:
        """Be well again in every way."""
        with self._lock:
            patient = self._exporters[name]
            patient.failing = patient.blank = patient.freezing = False
            patient.frozen, patient.overrides = {}, {}

    # The pages.

    def page(self, path: str) -> tuple[int, str]:
        """The answer to a scrape of /NAME/PAGE."""
        name, _, page = path.strip("/").partition("/")
        patient = self._exporters.get(name)
        if patient is None or page not in PAGES:
            return 404, "no such page\n"
        if patient.failing:
            return 503, "out of order\n"
        with self._lock:
            if patient.blank:
                return 200, ""
            if patient.freezing and page not in patient.frozen:
                patient.frozen[page] = self._written(patient, page, stamped=True)
            return 200, patient.frozen.get(page) or self._written(patient, page, self._stamped)

    def _written(self, patient: ExporterState, page: str, stamped: bool) -> str:
        reading = patient.machine.reading(time.time())
        text = "".join(lines(page, patient.machine, reading, patient.overrides, stamped))
        if page != "node" or not patient.backfill:
            return text
        # The past comes after the present: Prometheus takes a second sample of a series only with its own timestamp.
        text, patient.backfill = text + "".join(patient.backfill), []
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
                """Nobody reads a line per scrape."""

        return Page

"""Starts, disturbs and queries a real Prometheus on loopback.

    with Prometheus([Target("127.0.0.1:9100", "/metrics", {"instance": "node-0:9100"})]) as prometheus:
        prometheus.query("up")

    absent ── start ──▶ serving ── pause ──▶ hung ── resume ──▶ serving
       ▲                   │
       └────── kill ───────┘    start again: same port, same data; `stop` also removes the data

It does not wait for scrapes: `wait_for` waits until the result of a query is as expected.
"""

import http.client
import json
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from tools.controlplane.client import Document, Documents
from tools.controlplane.credentials import Credentials
from tools.controlplane.process import Process, Startable, free_port, retry_port_taken, wait_ready

WAIT_SECONDS = 30.0


@dataclass(frozen=True)
class Target:
    """One page to scrape; `instance` is the address unless the labels set it."""

    address: str
    path: str = "/metrics"
    labels: Mapping[str, str] = field(default_factory=dict)
    job: str = "node-exporter"

    def group(self) -> Document:
        """A static config of its own, because pages at one address differ in their path."""
        return {"targets": [self.address], "labels": {"__metrics_path__": self.path, **self.labels}}


def web_config(credentials: Credentials, users: Mapping[str, str]) -> Document:
    """A web configuration with TLS by the server certificate of this CA, and users by their bcrypt hashes."""
    files = {"cert_file": str(credentials.server_cert), "key_file": str(credentials.server_key)}
    return {"tls_server_config": files, "basic_auth_users": dict(users)}


class Prometheus(Startable):
    """One Prometheus with its own port, data, configuration and process."""

    process: Process

    def __init__(
        self,
        targets: Iterable[Target] = (),
        *,
        binaries: Path,
        jobs: Iterable[Document] = (),
        interval: str = "1s",
        rules: Document | None = None,
        web: Document | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        """Set the options; nothing runs yet.

        `jobs` are further scrape configs; `rules` is the content of a rule file (groups), `web` of a web configuration (see
        `web_config`; then queries are up to the caller), `flags` are extra flags.
        """
        self._binaries = binaries
        self._jobs = tuple(jobs)
        self._interval = interval
        self._rules = rules
        self._web = web
        self._flags = tuple(flags)
        self._port = 0
        self._running = False
        self.workspace = Path(tempfile.mkdtemp(prefix="trimtab-prometheus-"))
        self._write(targets)

    @property
    def url(self) -> str:
        """The address, also while it is down."""
        return f"{'https' if self._encrypted() else 'http'}://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start (after a kill on the same port and data) and wait until it is ready."""
        if self._port:
            self._launch()
        else:
            retry_port_taken(self._start_somewhere)

    def kill(self) -> None:
        """Crash: connections are refused, the data remain."""
        if self._running:
            self.process.kill()
        self._running = False

    def stop(self) -> None:
        """Stop it and remove its data."""
        self.kill()
        shutil.rmtree(self.workspace, ignore_errors=True)

    def pause(self) -> None:
        """Hang: connections are accepted, but nothing responds."""
        self.process.pause()

    def resume(self) -> None:
        """Continue after a pause."""
        self.process.resume()

    def scrape(self, targets: Iterable[Target]) -> None:
        """Replace the scraped targets."""
        self._write(targets)
        self._request("POST", "/-/reload")

    def query(self, promql: str, at: float | None = None) -> Documents:
        """The result of an instant query: series with `metric` and `value`."""
        question = urlencode({"query": promql, **({} if at is None else {"time": at})})
        found: Documents = json.loads(self._request("GET", f"/api/v1/query?{question}"))["data"]["result"]
        return found

    def values(self, promql: str, label: str = "instance") -> dict[str, float]:
        """The values of an instant query, by one label."""
        return {each["metric"].get(label, ""): float(each["value"][1]) for each in self.query(promql)}

    def wait_for(
        self, promql: str, wanted: Callable[[dict[str, float]], bool], label: str = "instance"
    ) -> dict[str, float]:
        """Wait until the values of a query satisfy the predicate, and return them."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not wanted(found := self.values(promql, label)):
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {WAIT_SECONDS:.0f} s: {promql} is {found}\n{self.process.log_tail()}")
            time.sleep(0.2)
        return found

    def _start_somewhere(self) -> Process:
        self._port = free_port()
        return self._launch()

    def _launch(self) -> Process:
        flags = {
            "config.file": self.workspace / "prometheus.json",
            "storage.tsdb.path": self.workspace / "data",
            "web.listen-address": f"127.0.0.1:{self._port}",
            "log.level": "warn",
            **({} if self._web is None else {"web.config.file": self._written("web.json", self._web)}),
        }
        command = [str(self._binaries / "prometheus"), *(f"--{name}={value}" for name, value in flags.items())]
        log = self.workspace / "prometheus.log"
        self.process = Process([*command, "--web.enable-lifecycle", *self._flags], log, {}, self.url)
        self._running = True
        return wait_ready(self.process, self._is_ready)

    def _is_ready(self) -> bool:
        if self._web is None:
            return bool(self._request("GET", "/-/ready"))
        with socket.create_connection(("127.0.0.1", self._port), timeout=1):
            return True

    def _encrypted(self) -> bool:
        return "tls_server_config" in (self._web or {})

    def _write(self, targets: Iterable[Target]) -> None:
        """Write the configuration as JSON, which is YAML; out-of-order samples are accepted, so that tests can backfill."""
        jobs: dict[str, Documents] = {}
        for target in targets:
            jobs.setdefault(target.job, []).append(target.group())
        every = {"scrape_interval": self._interval, "evaluation_interval": self._interval}
        content: Document = {
            "global": {**every, "scrape_timeout": self._interval},
            "storage": {"tsdb": {"out_of_order_time_window": "8d"}},
            "scrape_configs": [
                *({"job_name": job, "static_configs": groups} for job, groups in jobs.items()),
                *self._jobs,
            ],
        }
        if self._rules is not None:
            content["rule_files"] = [str(self._written("rules.json", self._rules))]
        self._written("prometheus.json", content)

    def _written(self, name: str, content: Document) -> Path:
        path = self.workspace / name
        path.write_text(json.dumps(content))
        return path

    def _request(self, method: str, path: str) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        if answer.status != 200:
            raise http.client.HTTPException(f"{method} {path} → {answer.status} {content[:500]!r}")
        return content

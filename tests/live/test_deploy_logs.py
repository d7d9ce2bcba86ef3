"""`trimtab deploy logs` through a real API server, whose kubelet is a small server with two pods' logs."""

from __future__ import annotations

import ssl
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from urllib.parse import parse_qs, urlsplit

import pytest
from click.testing import CliRunner

from tests.live import trimtab_process
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig
from trimtab.cli import main

pytestmark = pytest.mark.live

LABELS = {"app.kubernetes.io/name": "trimtab"}
LINES = tuple(f"2026-01-01T00:00:0{number}.5Z line {number}" for number in range(5))


class Kubelet(ThreadingHTTPServer):
    """Serves the same five lines for every container; a followed log stays open until `ended`, then begins anew."""

    def __init__(self, rig: Rig) -> None:
        self.queries: list[dict[str, list[str]]] = []
        self.ended = Event()
        super().__init__(("127.0.0.1", 0), _LogRequest)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(rig.credentials.server_cert, rig.credentials.server_key)
        self.socket = context.wrap_socket(self.socket, server_side=True)


class _LogRequest(BaseHTTPRequestHandler):
    server: Kubelet

    def do_GET(self) -> None:
        query = parse_qs(urlsplit(self.path).query)
        self.server.queries.append(query)
        tail = int(query.get("tailLines", ["100"])[0])
        self.send_response(200)
        self.end_headers()
        self.wfile.write("".join(f"{line}\n" for line in LINES[-tail:] if tail).encode())
        self.wfile.flush()
        if "follow" in query:
            self.server.ended.wait(30)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nothing: pytest shows what matters."""


@pytest.fixture
def kubelet(rig: Rig) -> Iterator[Kubelet]:
    """The kubelet of a node with a scheduler's and a labeller's pod."""
    server = Kubelet(rig)
    Thread(target=server.serve_forever, daemon=True).start()
    machine = node("worker")
    machine["status"]["addresses"] = [{"type": "InternalIP", "address": "127.0.0.1"}]
    machine["status"]["daemonEndpoints"] = {"kubeletEndpoint": {"Port": server.server_port}}
    rig.admin.create(machine)
    rig.ensure_namespace("trimtab")
    for name in ("scheduler", "labeller"):
        labels = {**LABELS, "app.kubernetes.io/component": name}
        rig.admin.create(pod(name, "trimtab", labels=labels, nodeName="worker"))
    yield server
    server.ended.set()
    server.shutdown()
    server.server_close()


def test_logs_of_all_replicas(rig: Rig, kubelet: Kubelet) -> None:
    """Each line with its pod, the last ones only, of one component if asked; and followed over an interruption."""

    def logs(*arguments: str) -> tuple[int, list[str]]:
        done = CliRunner().invoke(main, ["deploy", "logs", *arguments, "--kubeconfig", str(rig.admin_kubeconfig)])
        return done.exit_code, sorted(done.output.splitlines())

    both = [f"{name} line {number}" for name in ("labeller", "scheduler") for number in (3, 4)]
    assert (0, both) == logs("--tail", "2")
    assert (0, ["scheduler line 4"]) == logs("--tail", "1", "--component", "scheduler")
    assert (0, [f"labeller {LINES[4]}"]) == logs("--tail", "1", "--component", "labeller", "--timestamps")
    code, said = logs("-n", "default")
    assert (1, ["trimtab: no pod of trimtab is in namespace default: see trimtab deploy status."]) == (code, said)
    _check_follow(rig, kubelet)
    cut = logs("--component", "labeller", "--tail", "0")
    assert (0, []) == cut


def _check_follow(rig: Rig, kubelet: Kubelet) -> None:
    """A stream that ends is opened again from the last line, and no line is printed twice."""
    command = [sys.executable, "-m", "trimtab", "deploy", "logs", "-f", "--tail", "2", "--component", "scheduler"]
    command += ["--kubeconfig", str(rig.admin_kubeconfig)]
    environment = {"PYTHONPATH": str(trimtab_process.ROOT / "src"), "PYTHONUNBUFFERED": "1"}
    following = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert following.stdout is not None
    assert ["scheduler line 3\n", "scheduler line 4\n"] == [following.stdout.readline() for _ in range(2)]
    kubelet.ended.set()
    trimtab_process.wait_for(lambda: "sinceTime" in kubelet.queries[-1], 20, "opened again")
    following.terminate()
    assert ("", 143) == (following.stdout.read(), following.wait(timeout=20))
    following.stdout.close()

"""A hostile cluster around the real process: secrets that must not leak, endless names, a namespace that vanishes."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.live import trimtab_process
from tests.live.binding_webhook import BindingWebhook
from tests.live.requires_controlplane import controlplane_or_skip
from tools.controlplane.client import Document
from tools.controlplane.objects import node, pod
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
PASSWORD, ANNOTATION, VARIABLE, COMMAND = (
    f"canary-{name}-8f3a" for name in ("password", "note", "variable", "command")
)
BASIC = base64.b64encode(f"reader:{PASSWORD}".encode()).decode()
JWT = base64.b64encode(b'{"alg":').decode().rstrip("=")  # how every token of a service account begins
ESCAPES = "\x1b[31mred\r\nFAKE 2026-11-17 ERROR trimtab all is lost\u202e"


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """With the controller that empties a namespace, and room for everybody."""
    with Rig(
        controlplane_or_skip(), controllers=("namespace-controller", "pod-garbage-collector-controller")
    ) as running:
        trimtab_process.install(running)
        running.admin.create_many(node(f"node-{number}") for number in range(4))
        yield running


class Echo(BaseHTTPRequestHandler):
    """A Prometheus that sends back the credentials that it was given, in an error."""

    def do_POST(self) -> None:
        body = f'{{"status": "error", "error": "refused: {self.headers["Authorization"]}"}}'.encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def echo() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def secretive(name: str, **spec: object) -> Document:
    """A pod with secrets wherever a tenant may write any."""
    made = pod(name, scheduler=trimtab_process.SCHEDULER, **spec)
    made["metadata"]["annotations"] = {"note": ANNOTATION, "escapes": ESCAPES}
    made["spec"]["containers"][0] |= {"env": [{"name": "TOKEN", "value": VARIABLE}], "command": ["sh", "-c", COMMAND]}
    return made


def test_no_secret_is_told_at_the_highest_verbosity(rig: Rig, echo: str) -> None:
    """Neither by the log, Events, conditions, metrics, explanations nor the status page; and one record is one line."""
    password = rig.workspace / "password"
    password.write_text(PASSWORD)
    source = {"url": echo, "interval": "1s", "basicAuth": {"username": "reader", "passwordFile": str(password)}}
    own = {"sources": [{"name": "prom", "prometheus": source}], "logging": {"decisions": True}}
    config = trimtab_process.write_config(rig, "canary", own)
    trimtab = trimtab_process.launch(rig, config, "canary", "--log-level=debug")
    try:
        rig.admin.create_many([secretive("web"), secretive("stuck", nodeSelector={"none": "x"})])
        trimtab_process.wait_for(lambda: "web" in trimtab_process.bound(rig), 40, "bound", trimtab)
        trimtab_process.wait_for(lambda: "401" in trimtab.log.read_text(), 20, "the source refused", trimtab)
        pages = ["/metrics", "/status", "/explain/default/web", "/explain/default/stuck", "/readyz?verbose"]
        told = [trimtab.log.read_text(), *(trimtab_process.page(trimtab, page)[1] for page in pages)]
        told += [
            str(rig.admin.list("/apis/events.k8s.io/v1/events")),
            str([each["status"] for each in trimtab_process.pods(rig)]),
        ]
    finally:
        trimtab.terminate()
    assert "DEBUG" in told[0]
    for secret in (PASSWORD, BASIC, ANNOTATION, VARIABLE, COMMAND, JWT):
        assert [] == [text[max(0, text.index(secret) - 200) :][:400] for text in told if secret in text]
    lines = told[0].splitlines()
    assert [] == [line for line in lines if line.startswith("FAKE") or "\x1b" in line or "\u202e" in line]


def series(page: str) -> set[str]:
    """Names and labels of all series."""
    return {line.rpartition(" ")[0] for line in page.splitlines() if line and not line.startswith("#")}


def test_names_of_tenants_make_no_series(rig: Rig) -> None:
    """A hundred namespaces' worth of names, labels and owners later, /metrics has the same series as before."""
    trimtab = trimtab_process.start(rig, "series")
    try:
        waves = []
        for wave in range(3):
            rig.ensure_namespace(f"tenant-{wave}")
            rig.admin.create_many(
                pod(
                    f"pod-{wave}-{i}",
                    f"tenant-{wave}",
                    scheduler=trimtab_process.SCHEDULER,
                    labels={f"key-{wave}-{i}": "x"},
                    cpu="1m",
                )
                for i in range(40)
            )
            trimtab_process.wait_for(
                lambda wave=wave: len(trimtab_process.bound(rig, f"tenant-{wave}")) == 40,
                40,
                "bound",
                trimtab,  # type: ignore[misc]
            )
            waves.append(series(trimtab_process.page(trimtab, "/metrics")[1]))
    finally:
        trimtab.terminate()
    assert 100 < len(waves[0])
    assert waves[1] == waves[2]
    assert [] == [each for each in waves[2] if "tenant-" in each or "pod-0" in each or "key-" in each]


def test_a_namespace_that_is_deleted_during_a_batch(rig: Rig) -> None:
    """Its pods are refused, and tried again only after a back-off; those of other namespaces are bound meanwhile."""
    rig.ensure_namespace("doomed")
    trimtab = trimtab_process.start(rig, "batch")
    trimtab_process.wait_for(lambda: trimtab_process.is_ready(trimtab), 40, "ready", trimtab)
    try:
        with BindingWebhook(rig, pass_first=5) as point:
            rig.admin.create_many(
                pod(f"doomed-{i}", "doomed", scheduler=trimtab_process.SCHEDULER, cpu="1m") for i in range(40)
            )
            assert point.held.wait(30), trimtab.log_tail()
            rig.admin.delete("/api/v1/namespaces/doomed")
            trimtab_process.wait_for(lambda: not waiting(rig), 30, "the pending pods are deleted", trimtab)
            point.release()
        rig.admin.create_many(pod(f"later-{i}", scheduler=trimtab_process.SCHEDULER, cpu="1m") for i in range(10))
        trimtab_process.wait_for(
            lambda: sum(name.startswith("later-") for name in trimtab_process.bound(rig)) == 10,
            30,
            "others bound",
            trimtab,
        )
    finally:
        assert 0 == trimtab.terminate()
    report = trimtab_process.check_audit_log(rig)
    # A namespace that is being deleted admits nothing new, with the same 403 as a missing permission.
    assert {"refused with 403: create  pods/binding", "refused with 403: create events.k8s.io events"} >= {
        *report.violations
    }
    refused = sum(count for code, count in report.answers.items() if code >= 400)
    assert 0 < refused <= 4 * 40, report.answers


def waiting(rig: Rig) -> list[str]:
    """The pods of the namespace that have no node and are not being deleted."""
    return [
        each["metadata"]["name"]
        for each in trimtab_process.pods(rig, "doomed")
        if not each["spec"].get("nodeName") and "deletionTimestamp" not in each["metadata"]
    ]

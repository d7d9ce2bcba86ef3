"""`trimtab explain` renders the live process' answer, and says what to do without one."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from click.testing import CliRunner

from trimtab.cli import main

POD = {
    "pod": "shop/cart", "scheduler": "trimtab", "state": "is bound to one", "node": "one", "nodes": 41,
    "verdict": "one: best of 2 of 41 nodes", "stock": "two: best of 9 of 41 nodes",
    "note": "the label is ignored",
    "waiting": {
        "since": 0.0, "until": 61.5, "attempts": 2,
        "steps": [
            {"at": 0.0, "queue": "active", "cause": "the pod was seen"},
            {"at": 0.0, "queue": "unschedulable", "cause": "attempt 1 failed, rejected by NodeResourcesFit"},
        ],
    },
    "past": [{"at": 0.0, "attempt": 1, "node": "one", "words": "shop/cart: best of 2 of 41 nodes"}],
    "lines": [
        {
            "node": "one", "scores": {"PeakRisk": 99.5, "TaintToleration": 300}, "total": 399.5,
            "plugins": {
                "PeakRisk": {"raw": 9.95, "normalised": 9.95, "weight": 10, "points": 99.5},
                "TaintToleration": {"raw": 0, "normalised": 100, "weight": 3, "points": 300},
            },
        },
        {"node": "two", "refused_by": "NodeResourcesFit", "reasons": ["Insufficient cpu"], "final": False},
    ],
}  # fmt: skip
NODE = {
    "node": "one", "state": "cordoned", "pods": ["shop/cart"], "past": [],
    "uses": [
        {"resource": "cpu", "allocatable": 4000, "requested": 500, "latest": 3500.0, "expected": 3600.0, "trust": 1.0},
        {"resource": "memory", "allocatable": 1 << 30, "requested": 0, "latest": None, "expected": None, "trust": 0.0},
    ],
    "waiting": [{"pod": "shop/big", "line": {"node": "one", "refused_by": "Fit", "reasons": ["no room"]}}],
    "rescheduling": {
        "node": "one", "mode": "observe", "verdict": "no pod leaves it: no move is worth its disruption", "penalty": 41.26,
        "uses": [
            {"resource": "cpu", "usage": 0.951, "limit": 0.8}, {"resource": "memory", "usage": None, "limit": 0.9},
        ],
        "suggested": [{"strategy": "HotSpot", "reason": "cpu is hot", "pods": ["shop/cart"]}],
        "silent": ["LoadBalancing"], "more_pods": 3,
        "pods": [
            {"pod": "shop/cart", "guard": "", "reason": "", "target": "two", "gain": 3.0, "cost": 32.0},
            {"pod": "shop/big", "guard": "", "reason": "", "target": "", "gain": 0.0, "cost": 32.0},
            {"pod": "shop/db", "guard": "job", "reason": "its work would be lost", "target": "", "gain": 0, "cost": 0},
        ],
        "plans": [{"at": 0.0, "words": "1 moves, none of this node; 2 pods of suggested nodes were refused"}],
    },
}  # fmt: skip


@pytest.fixture
def address() -> Iterator[str]:
    """A process that knows one pod and one node."""

    class Pages(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            response = {"/explain/pod/shop/cart": POD, "/explain/node/one": NODE}.get(self.path.partition("?")[0])
            self.send_response(200 if response else 404)
            self.end_headers()
            self.wfile.write(json.dumps(response or {"problem": "no such thing is known here"}).encode())

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = HTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def run_explain(*arguments: str) -> tuple[int, str]:
    """What the command prints."""
    result = CliRunner().invoke(main, ["explain", *arguments])
    return result.exit_code, result.output


def test_an_address_that_is_none() -> None:
    """One sentence, also for what no URL can be."""
    for given in ("http://[::1", "ftp://x", "x/y"):
        code, text = run_explain("pod/cart", "--address", given)
        assert (1, True) == (code, f"{given!r} is no address: set --address to" in text), text


def test_pod(address: str) -> None:
    """The table has a column per plugin; rejected nodes have plugin and reason; hidden ones are counted."""
    code, text = run_explain("pod/cart", "-n", "shop", "--address", address)
    assert 0 == code
    assert "  node  total  PeakRisk  TaintToleration\n  one   399.5  99.5      300" in text
    assert "not two: NodeResourcesFit: Insufficient cpu (preemption could help)" in text
    assert "39 more nodes" in text


def test_how_a_score_comes_about_and_how_the_pod_waited(address: str) -> None:
    """A row per plugin for the best node; the steps through the queue; and the stock profile's choice."""
    text = run_explain("pod/cart", "-n", "shop", "--address", address)[1]
    assert (
        "  score of one     raw   normalised  weight  points\n"
        "  PeakRisk         9.95  9.95        10      99.5\n"
        "  TaintToleration  0     100         3       300" in text
    )
    assert (
        "waited 61.5 s from 1970-01-01 00:00:00Z on, 2 attempts:\n  1970-01-01 00:00:00Z active: the pod was seen"
        in text
    )
    assert "unschedulable: attempt 1 failed, rejected by NodeResourcesFit" in text
    assert "with kube-scheduler's own profile: two: best of 9 of 41 nodes" in text
    assert "\nnote: the label is ignored\n" in text


@pytest.mark.parametrize("flags", [("-o", "json"), ("--output", "json"), ("--json",)])
def test_as_json(address: str, flags: tuple[str, ...]) -> None:
    """All that the process answers."""
    assert POD == json.loads(run_explain("pod/cart", "-n", "shop", "--address", address, *flags)[1])


def test_a_node_that_is_not_there(address: str) -> None:
    """An unknown node of --node is reported, also among several."""
    assert (
        "not three: node not found" in run_explain("pod/cart", "-n", "shop", "--node", "three", "--address", address)[1]
    )
    assert "known here" not in run_explain("pod/cart", "-n", "shop", "--node", "two", "--address", address)[1]
    assert 2 == run_explain("node/one", "--node", "two", "--address", address)[0]


def test_the_address_may_be_a_url(address: str) -> None:
    """As in the log of `trimtab run`."""
    assert 0 == run_explain("node/one", "--address", f"http://{address}/")[0]


def test_node(address: str) -> None:
    """Missing measurements are not zero."""
    code, text = run_explain("node/one", "--address", address)
    assert 0 == code
    assert "cpu: 4.00 CPU allocatable, 0.50 CPU requested, 3.50 CPU measured (fresh), 3.60 CPU expected" in text
    assert "unknown measured (not trusted)" in text
    assert "pending pod shop/big: Fit: no room" in text


def test_rescheduling_of_a_node(address: str) -> None:
    """Why nothing happens: the verdict, usage and limits, strategies, pods and the last plans."""
    shown = run_explain("node/one", "--address", address)[1].partition("rescheduling (observe): ")[2].splitlines()
    assert [
        "no pod leaves it: no move is worth its disruption",
        "  usage and limits: cpu 95% of 80%, memory unknown of 90%, penalty 41.3",
        "  suggested by HotSpot: cpu is hot (for shop/cart)",
        "  not suggested by LoadBalancing",
        "  pod shop/cart: may be moved, best to two: gain 3.0, cost 32.0",
        "  pod shop/big: may be moved, but no other node would take it within its limits",
        "  pod shop/db: stays, job: its work would be lost",
        "  3 more pods may be moved, and would relieve the node less",
        "  planned 1970-01-01 00:00:00Z: 1 moves, none of this node; 2 pods of suggested nodes were refused",
    ] == shown


@pytest.mark.parametrize("response", [POD, NODE])
def test_a_standby(response: dict[str, object]) -> None:
    """The first line says that another process decides; a leader's answer starts with the pod or the node."""
    kind = "pod" if "pod" in response else "node"
    body = json.dumps({**response, "standby": "this process is a standby"}).encode()
    with other_server(b"HTTP/1.1 200 OK\r\n\r\n" + body) as address:
        lines = run_explain(f"{kind}/any", "--address", address)[1].splitlines()
    assert ("this process is a standby", kind) == (lines[0], lines[1].split()[0])


def test_json(address: str) -> None:
    """The answer is printed unchanged."""
    assert NODE == json.loads(run_explain("node/one", "--address", address, "--json")[1])


def test_unknown(address: str) -> None:
    """An unknown object is an error with exit code 1."""
    assert (1, "trimtab: no such thing is known here.\n") == run_explain("node/none", "--address", address)


def test_nobody_there() -> None:
    """Without a server the error has the address and the remedy."""
    code, text = run_explain("node/one", "--address", "127.0.0.1:1")
    assert 1 == code
    assert "no answer at 127.0.0.1:1" in text
    assert "kubectl port-forward -n trimtab deploy/trimtab 10259" in text
    assert "--server https://127.0.0.1:10259 --insecure-skip-tls-verify" in text
    assert "--address" in text


@contextmanager
def other_server(answer: bytes) -> Iterator[str]:
    """Another program that answers every connection with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            line, _ = server.accept()
            with line:
                line.recv(1 << 16)
                line.sendall(answer)

        threading.Thread(target=greet, daemon=True).start()
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-OpenSSH_9.9\r\n", "no answer at"),
        (b"", "no answer at"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{", "no answer at"),
        (b"HTTP/1.1 200 OK\r\n\r\n<html>", "unexpected answer with status 200"),
        (b"HTTP/1.1 200 OK\r\n\r\n[1]", "unexpected answer with status 200"),
        (b"HTTP/1.1 302 Found\r\nLocation: /\r\n\r\n", "unexpected answer with status 302"),
        (b'HTTP/1.1 404 Not Found\r\n\r\n{"kind":"Status"}', "unexpected answer with status 404"),
        (b'HTTP/1.1 200 OK\r\n\r\n{"node":"one"}', "unexpected answer: "),
        (b'HTTP/1.1 404 Not Found\r\n\r\n{"problem":"no \\u001b[31mnode"}', r"no \x1b[31mnode."),
    ],
)
def test_somebody_else_there(answer: bytes, words: str) -> None:
    """Whatever another program answers, the error is one sentence with exit code 1."""
    with other_server(answer) as address:
        code, text = run_explain("node/one", "--address", address)
    assert (1, 1, "trimtab: ") == (code, text.count("\n"), text[:9])
    assert words in text


@pytest.mark.parametrize("address", ["foo bar:1", "127.0.0.1:abc", "http://127.0.0.1:1", "", "a..b:1"])
def test_no_address(address: str) -> None:
    """An invalid address is an error with the remedy."""
    code, text = run_explain("node/one", "--address", address)
    assert 1 == code
    assert "set --address" in text


def test_no_proxy_is_asked(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies of the environment are ignored."""
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    assert 0 == run_explain("node/one", "--address", address)[0]


def test_no_server_is_loaded_to_ask_one() -> None:
    """The command imports neither the server nor the engine."""
    code = "import sys, trimtab.cli.explain; print(sorted({'aiohttp', 'numpy'} & sys.modules.keys()))"
    assert "[]\n" == subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_neither_pod_nor_node() -> None:
    """Anything else is rejected before a request is sent."""
    assert 2 == run_explain("deployment/web")[0]


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("--token-file", "/nonexistent"), "/nonexistent cannot be read: No such file or directory"),
        (("--certificate-authority", "/nonexistent", "--token", "t"), "/nonexistent cannot be read"),
        (("--kubeconfig", "/nonexistent"), "the kubeconfig /nonexistent cannot be read"),
        (("--token", "se\ncret"), "the token contains line breaks"),
    ],
)
def test_credentials_that_cannot_be_used(flags: tuple[str, ...], words: str) -> None:
    """One sentence, without the secret, before anything is sent."""
    code, text = run_explain("node/one", "--server", "https://127.0.0.1:1", *flags)
    assert (2, True, False) == (code, words in text, "cret" in text), text

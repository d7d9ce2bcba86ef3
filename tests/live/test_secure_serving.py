"""The secure port on a real API server: who gets in, in which words others are refused, and what happens while it is down."""

from __future__ import annotations

import base64
import json
import ssl
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import trustme
from click.testing import CliRunner
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from tests.live import trimtab_process
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.secure_caller import Answer, call, untrusting
from tools.controlplane.client import Document
from tools.controlplane.commands import FRONT_PROXY
from tools.controlplane.objects import node, pod
from tools.controlplane.process import Process, free_port
from tools.controlplane.rig import Rig
from trimtab.cli import main

pytestmark = pytest.mark.live
PATHS = ("/metrics", "/explain/node/node-0", "/livez/ping", "/nothing")


def reader_role(*paths: str) -> list[Document]:
    """The account default/reader may read these paths, the user `eve` with a certificate, too."""
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reads-pages"},
        "rules": [{"nonResourceURLs": [*paths], "verbs": ["get"]}],
    }
    people = [
        {"kind": "ServiceAccount", "name": "reader", "namespace": "default"},
        {"kind": "User", "name": "eve", "apiGroup": "rbac.authorization.k8s.io"},
    ]
    accounts = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": "default"}}
        for name in ("reader", "stranger")
    ]
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reads-pages"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reads-pages"},
        "subjects": people,
    }
    return [role, *accounts, binding]


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A control plane with our roles, one account that may read the pages, and one that may not."""
    with Rig(controlplane_or_skip()) as running:
        trimtab_process.install(running, *trimtab_process.ROLES, "rbac-serving.yaml")
        running.apply(reader_role("/metrics", "/explain/*", "/livez/*", "/nothing"))
        yield running


def start(rig: Rig, name: str, *flags: str, kubeconfig: Path | None = None, profile: str = "trimtab") -> Process:
    """`trimtab run` with a secure port on loopback."""
    port = free_port()
    config = trimtab_process.write_config(rig, name, profiles=[{"schedulerName": profile}])
    command = [sys.executable, "-m", "trimtab", "run", "--config", str(config)]
    command += ["--kubeconfig", str(kubeconfig or rig.service_account_kubeconfig("trimtab", "trimtab"))]
    command += ["--bind-address=127.0.0.1", f"--secure-port={port}", *flags]
    environment = {"PYTHONPATH": f"{trimtab_process.ROOT / 'src'}"}
    process = Process(command, rig.workspace / f"{name}.log", environment, f"https://127.0.0.1:{port}")
    trimtab_process.wait_for(lambda: is_ready(process), 60, "ready", process)
    return process


@contextmanager
def running(process: Process) -> Iterator[Process]:
    """Ends it with the block."""
    try:
        yield process
    finally:
        process.terminate()


def is_ready(process: Process) -> bool:
    try:
        return call(process, "/readyz").status == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def trimtab(rig: Rig) -> Iterator[Process]:
    """A scheduler with a certificate of the cluster's CA. It caches for ten seconds, and outlives the API server."""
    files = [f"--tls-cert-file={rig.credentials.server_cert}", f"--tls-private-key-file={rig.credentials.server_key}"]
    caches = ["authentication-token-webhook-cache-ttl", "authorization-webhook-cache-authorized-ttl"]
    flags = [*files, *(f"--{name}=10s" for name in caches), "--leader-elect=false"]
    with running(start(rig, "secure", *flags, profile="nobody")) as process:
        yield process


@pytest.fixture(scope="module")
def reader(rig: Rig) -> str:
    """A token of the account that may read."""
    return rig.service_account_token("default", "reader")


@pytest.fixture(scope="module")
def stranger(rig: Rig) -> str:
    """A token of the account that may not."""
    return rig.service_account_token("default", "stranger")


def message(answer: Answer) -> tuple[int, str]:
    """The status, and the message of the Status object."""
    return answer.status, json.loads(answer.text)["message"]


@pytest.mark.parametrize("path", PATHS)
def test_who_may_read_what(rig: Rig, trimtab: Process, reader: str, stranger: str, path: str) -> None:
    """Nothing, garbage, a forged, an expired and another server's token: 401; without the right 403; with it the page."""
    elsewhere = token_for(rig, "reader", "https://example.com")
    for token in ("", "garbage", reader[:-4] + "AAAA", expired(rig, reader), elsewhere):
        assert (401, "Unauthorized") == message(call(trimtab, path, token))
    refused = f'forbidden: User "system:serviceaccount:default:stranger" cannot get path "{path}"'
    assert (403, refused) == message(call(trimtab, path, stranger))
    assert {"/nothing": 404, "/explain/node/node-0": 404}.get(path, 200) == call(trimtab, path, reader).status


def test_health_needs_no_credentials(trimtab: Process) -> None:
    """Only the paths themselves, and a wrong token does not matter there."""
    for path in ("/livez", "/readyz", "/healthz", "/livez?verbose"):
        assert 200 == call(trimtab, path, "garbage").status
    assert 401 == call(trimtab, "/readyz/ping").status


def test_other_methods_need_their_own_right(trimtab: Process, reader: str) -> None:
    """Who may get a path may not post to it."""
    refused = 'forbidden: User "system:serviceaccount:default:reader" cannot post path "/metrics"'
    assert (403, refused) == message(call(trimtab, "/metrics", reader, method="POST"))


@pytest.mark.parametrize(
    "headers",
    [
        {"X_Remote_User": "eve", "X_Remote_Group": "system:masters"},
        {"Impersonate_User": "eve", "Impersonate_Group": "system:masters"},
        {"X_Forwarded_For": "127.0.0.1", "X_Forwarded_User": "eve", "Forwarded": "for=127.0.0.1"},
    ],
)
def test_headers_do_not_make_a_caller_somebody_else(
    rig: Rig, trimtab: Process, stranger: str, headers: dict[str, str]
) -> None:
    """Without a token they are nobody, with one its owner, and the API server's proxy is only itself."""
    assert 401 == call(trimtab, "/metrics", **headers).status
    assert 403 == call(trimtab, "/metrics", stranger, **headers).status
    refused = f'forbidden: User "{FRONT_PROXY}" cannot get path "/metrics"'
    assert (403, refused) == message(call(trimtab, "/metrics", context=rig.credentials.tls(FRONT_PROXY), **headers))


def test_client_certificates_of_the_cluster(rig: Rig, trimtab: Process) -> None:
    """The common name is the user, the organization the group; the CA was looked up in kube-system."""
    assert 200 == call(trimtab, "/metrics", context=rig.credentials.tls("eve")).status
    assert 200 == call(trimtab, "/metrics", context=rig.credentials.tls("root", "system:masters")).status
    assert "scheduler_" in rig.kubectl("get", "--raw", "/metrics", f"--server={trimtab.url}")  # a client in Go
    refused = 'forbidden: User "mallory" cannot get path "/metrics"'
    assert (403, refused) == message(call(trimtab, "/metrics", context=rig.credentials.tls("mallory")))
    forged = untrusting()
    cert = trustme.CA().issue_cert("client.invalid", common_name="eve")
    cert.configure_cert(forged)
    with pytest.raises((OSError, HTTPException)):
        call(trimtab, "/metrics", context=forged)


def test_refusals_are_those_of_kube_scheduler(rig: Rig, trimtab: Process, stranger: str) -> None:
    """Status, content type and text, for a wrong token and for a missing right, next to the real one."""
    port, admin = free_port(), rig.admin_kubeconfig
    command = [str(rig.binaries / "kube-scheduler"), f"--kubeconfig={admin}", "--leader-elect=false"]
    command += [f"--authentication-kubeconfig={admin}", f"--authorization-kubeconfig={admin}"]
    command += ["--bind-address=127.0.0.1", f"--secure-port={port}"]
    process = Process(command, rig.workspace / "stock.log", {}, f"https://127.0.0.1:{port}")
    with running(process) as stock:
        trimtab_process.wait_for(lambda: is_ready(stock), 60, "kube-scheduler", stock)
        for token in ("garbage", stranger):
            expected, found = (call(each, "/metrics", token) for each in (stock, trimtab))
            assert (expected.status, json.loads(expected.text)) == (found.status, json.loads(found.text))
            assert expected.content_type == found.content_type


def test_as_kube_scheduler_itself(rig: Rig, reader: str) -> None:
    """With the arguments of a kubeadm cluster: its account may delegate, and the certificate is self-signed."""
    account = rig.client_kubeconfig("system:kube-scheduler")
    flags = [f"--authentication-kubeconfig={account}", f"--authorization-kubeconfig={account}", "--leader-elect=true"]
    flags += ["--profiling=false", "--feature-gates=A=true", "-v=2"]
    with running(start(rig, "stock-account", *flags, kubeconfig=account, profile="default-scheduler")) as process:
        assert 200 == call(process, "/metrics", reader).status
        log = (rig.workspace / "stock-account.log").read_text()
        assert "flags of kube-scheduler that have no effect here: flags=--feature-gates, --profiling\n" in log
        with pytest.raises(ssl.SSLCertVerificationError):
            call(process, "/livez", context=rig.credentials.tls())


def test_without_the_right_to_delegate(rig: Rig, reader: str) -> None:
    """Pages are refused with 503, one line of the log has the remedy, and pods are scheduled all the same."""
    rig.ensure_namespace("default")
    weak = rig.service_account_kubeconfig("default", "stranger")
    with running(start(rig, "weak", f"--authentication-kubeconfig={weak}")) as process:
        for _ in range(3):
            assert 503 == call(process, "/metrics", reader).status
        assert 200 == call(process, "/livez").status
        log = (rig.workspace / "weak.log").read_text()
        assert 1 == log.count("review failed, answering 503: review=TokenReview")
        assert 1 == log.count("forbidden=create tokenreviews.authentication.k8s.io")
        assert "bind the ClusterRole system:auth-delegator to this account" in log
        assert "bind the Role extension-apiserver-authentication-reader of kube-system to this account" in log
        assert reader not in log
        rig.admin.create(node("node-0"))
        rig.admin.create(pod("web", scheduler="trimtab"))
        trimtab_process.wait_for(lambda: trimtab_process.bound(rig), 30, "bound", process)


def explain(process: Process, *flags: str) -> tuple[int, str]:
    """`trimtab explain` from the secure port."""
    done = CliRunner().invoke(main, ["explain", "pod/none", "--server", process.url, *flags])
    return done.exit_code, done.output


def test_explain_asks_the_secure_port(rig: Rig, trimtab: Process, reader: str, stranger: str, tmp_path: Path) -> None:
    """With a token or a kubeconfig; refusals name the user, the path and the remedy."""
    ca = ("--certificate-authority", str(rig.credentials.ca_file))
    answer = (1, "trimtab: pod default/none not found: check its namespace and name.\n")
    assert answer == explain(trimtab, "--token", reader, *ca)
    (tmp_path / "token").write_text(reader + "\n")
    assert answer == explain(trimtab, "--token-file", str(tmp_path / "token"), "--insecure-skip-tls-verify")
    assert answer == explain(trimtab, "--kubeconfig", str(rig.client_kubeconfig("eve")), *ca)
    own = ("--kubeconfig", str(rig.service_account_kubeconfig("default", "reader")))
    assert answer == explain(trimtab, *own, *ca)
    assert (
        "token is not sent to a server that is not verified" in explain(trimtab, *own, "--insecure-skip-tls-verify")[1]
    )
    assert "is not trusted" in (untrusted := explain(trimtab, "--token", reader)[1])
    assert "--certificate-authority FILE, or --insecure-skip-tls-verify" in untrusted
    assert "(401): give a valid --token" in explain(trimtab, "--token", "garbage", *ca)[1]
    code, refused = explain(trimtab, "--token", stranger, *ca)
    expected = 'forbidden: User "system:serviceaccount:default:stranger" cannot get path "/explain/pod/default/none"'
    assert (1, True, True) == (code, expected in refused, "--non-resource-url='/explain/*'" in refused)
    assert not any(token in refused for token in (reader, stranger))


def test_the_labeller_serves_the_same_way(rig: Rig) -> None:
    """Its pages need a right on the secure port; the address that its operator asked for has /status and /nodes for all."""
    rules = rig.workspace / "rule.yaml"
    rules.write_text("Rulename:\n  Node_mem: {Promsql: used, Threshold: 70}\n")
    secure, plain = free_port(), free_port()
    command = [sys.executable, "-m", "trimtab", "labeller", "-kubeconfig", str(rig.admin_kubeconfig), "-r", str(rules)]
    command += ["-prom", "http://127.0.0.1:9", "-webaddr", f":{plain}"]
    command += ["--bind-address=127.0.0.1", f"--secure-port={secure}"]
    environment = {"PYTHONPATH": f"{trimtab_process.ROOT / 'src'}"}
    url = f"https://127.0.0.1:{secure}"
    with running(Process(command, rig.workspace / "labeller.log", environment, url)) as process:
        trimtab_process.wait_for(lambda: is_ready(process), 60, "ready", process)
        assert (401, "Unauthorized") == message(call(process, "/nodes"))
        labelled = '{"type":"Label type=presure Nodes","num":0,"node_names":[]}'
        assert (200, labelled) == call(process, "/nodes", context=admin(rig))[:2]
        with urlopen(f"http://127.0.0.1:{plain}/nodes", timeout=10) as response:
            assert labelled == response.read().decode()
        with pytest.raises(HTTPError, match="404"):
            urlopen(f"http://127.0.0.1:{plain}/metrics", timeout=10)


def admin(rig: Rig) -> ssl.SSLContext:
    context = untrusting()
    context.load_cert_chain(*map(str, rig.credentials.client_certificate("admin", "system:masters")))
    return context


def test_while_the_api_server_is_down(rig: Rig, trimtab: Process) -> None:
    """Who was let in is let in while that is cached, nobody else is, and probes go on.

    No other test asks with this token or for this page, so both answers are cached for the whole time.
    """
    known, fresh = (rig.service_account_token("default", "reader") for _ in range(2))
    assert known != fresh and 200 == call(trimtab, "/livez/eventLoop", known).status
    rig.kill_apiserver()
    try:
        assert 200 == call(trimtab, "/livez/eventLoop", known).status
        assert (503, "the API server could not be asked") == message(call(trimtab, "/metrics", fresh))
        assert 503 == call(trimtab, "/explain/node/node-1", known).status
        trimtab_process.wait_for(lambda: call(trimtab, "/livez/eventLoop", known).status == 503, 30, "expired", trimtab)
        assert 200 == call(trimtab, "/livez").status
    finally:
        rig.start_apiserver()
    trimtab_process.wait_for(lambda: call(trimtab, "/metrics", fresh).status == 200, 30, "asked again", trimtab)


def token_for(rig: Rig, account: str, audience: str) -> str:
    path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
    answer = rig.admin.call("POST", path, {"spec": {"audiences": [audience], "expirationSeconds": 600}})
    token: str = answer["status"]["token"]
    return token


def expired(rig: Rig, token: str) -> str:
    """The same token as it would have been yesterday, with a valid signature."""
    head, claims, _ = token.split(".")
    changed = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    changed |= {name: changed[name] - 86400 for name in ("exp", "iat", "nbf")}
    signed = f"{head}.{encoded(json.dumps(changed).encode())}"
    key = serialization.load_pem_private_key(rig.credentials.token_key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    r, s = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
    return f"{signed}.{encoded(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")

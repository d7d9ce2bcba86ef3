"""The secure port on a real API server: who gets in, in which words others are refused, and what happens while it is down."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from tests.live import trimtab_process
from tests.live.requires_controlplane import controlplane_or_skip
from tests.live.secure_caller import call
from tools.controlplane.client import Document
from tools.controlplane.process import Process, free_port
from tools.controlplane.rig import Rig

pytestmark = pytest.mark.live
ACCOUNT = {"kind": "ServiceAccount", "name": "trimtab", "namespace": "trimtab"}
PATHS = ("/metrics", "/explain/node/node-0", "/livez/ping", "/nothing")


def binding(kind: str, name: str, role: str, *subjects: Document, namespace: str = "") -> Document:
    """A ClusterRoleBinding or RoleBinding."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": kind.removesuffix("Binding"),
            "name": role,
        },
        "subjects": list(subjects),
    }


def may_delegate() -> list[Document]:
    """What our account needs to ask who a caller is."""
    reader = "extension-apiserver-authentication-reader"
    return [
        binding("ClusterRoleBinding", "trimtab:auth-delegator", "system:auth-delegator", ACCOUNT),
        binding("RoleBinding", "trimtab:authentication-reader", reader, ACCOUNT, namespace="kube-system"),
    ]


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
    return [role, *accounts, binding("ClusterRoleBinding", "reads-pages", "reads-pages", *people)]


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """A control plane with our roles, one account that may read the pages, and one that may not."""
    with Rig(controlplane_or_skip()) as running:
        trimtab_process.install(running)
        running.apply([*may_delegate(), *reader_role("/metrics", "/explain/*", "/livez/*", "/nothing")])
        yield running


def start(rig: Rig, name: str, *flags: str) -> Process:
    """`trimtab run` with a secure port on loopback."""
    port = free_port()
    command = [sys.executable, "-m", "trimtab", "run", "--config", str(trimtab_process.write_config(rig, name))]
    command += ["--kubeconfig", str(rig.service_account_kubeconfig("trimtab", "trimtab"))]
    command += ["--bind-address=127.0.0.1", f"--secure-port={port}", *flags]
    environment = {"PYTHONPATH": f"{trimtab_process.ROOT / 'src'}"}
    process = Process(command, rig.workspace / f"{name}.log", environment, f"https://127.0.0.1:{port}")
    trimtab_process.wait_for(lambda: is_ready(process), 60, "ready", process)
    return process


def is_ready(process: Process) -> bool:
    try:
        return call(process, "/readyz").status == 200
    except OSError:
        return False


@pytest.fixture(scope="module")
def trimtab(rig: Rig) -> Iterator[Process]:
    """A scheduler with a self-signed certificate."""
    process = start(rig, "secure")
    try:
        yield process
    finally:
        process.terminate()


@pytest.fixture(scope="module")
def reader(rig: Rig) -> str:
    """A token of the account that may read."""
    return rig.service_account_token("default", "reader")


def message(text: str) -> str:
    found: str = json.loads(text)["message"]
    return found


@pytest.mark.parametrize("path", PATHS)
def test_who_may_read_what(rig: Rig, trimtab: Process, reader: str, path: str) -> None:
    """No token, one that is none, one for others, one without the right, one with it."""
    elsewhere = token_for(rig, "reader", "https://example.com")
    stranger = rig.service_account_token("default", "stranger")
    for token in ("", "garbage", reader[:-4] + "AAAA", elsewhere):
        assert (401, "Unauthorized") == (lambda a: (a.status, message(a.text)))(call(trimtab, path, token))
    refused = call(trimtab, path, stranger)
    expected = f'forbidden: User "system:serviceaccount:default:stranger" cannot get path "{path}"'
    assert (403, expected) == (refused.status, message(refused.text))
    assert {"/nothing": 404, "/explain/node/node-0": 404}.get(path, 200) == call(trimtab, path, reader).status


def token_for(rig: Rig, account: str, audience: str) -> str:
    path = f"/api/v1/namespaces/default/serviceaccounts/{account}/token"
    answer = rig.admin.call("POST", path, {"spec": {"audiences": [audience], "expirationSeconds": 600}})
    token: str = answer["status"]["token"]
    return token

"""Which ports the flags open, outside of a cluster and inside."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
import trustme
from click.testing import CliRunner

from tools.controlplane.process import free_port
from trimtab.cli import main
from trimtab.cli.run import command
from trimtab.cli.serving_flags import read_serving_flags
from trimtab.kube.credentials import find_credentials
from trimtab.serve.address import DEFAULT_ADDRESS
from trimtab.serve.options import Address, Serving

LOOPBACK = Address("127.0.0.1", 10261, "--serve")


def serving(*arguments: str, in_cluster: bool = False) -> Serving:
    params = command.make_context("run", [*arguments]).params
    return read_serving_flags(params, params["address"], DEFAULT_ADDRESS).serving(in_cluster)


def ports(found: Serving) -> dict[str, str]:
    """Each port that is open, with its address."""
    secure = found.secure.address if found.secure is not None else None
    every = {"loopback": found.loopback, "secure": secure, "health": found.health, "status": found.status}
    return {name: str(address) for name, address in every.items() if address is not None}


@pytest.mark.parametrize(
    ("arguments", "outside", "inside"),
    [
        ((), {"loopback": "127.0.0.1:10261"}, {"secure": "0.0.0.0:10259"}),
        (("--serve=127.0.0.1:1",), {"loopback": "127.0.0.1:1"}, {"loopback": "127.0.0.1:1", "secure": "0.0.0.0:10259"}),
        (("--secure-port=0",), {"loopback": "127.0.0.1:10261"}, {"loopback": "127.0.0.1:10261"}),
        (("--secure-port=444",), {"secure": "0.0.0.0:444"}, {"secure": "0.0.0.0:444"}),
        (("--bind-address=::1",), {"secure": "[::1]:10259"}, {"secure": "[::1]:10259"}),
        (("--authentication-kubeconfig=x",), {"secure": "0.0.0.0:10259"}, {"secure": "0.0.0.0:10259"}),
        (
            ("--health-probe-bind-address=:8081",),
            {"loopback": "127.0.0.1:10261", "health": "0.0.0.0:8081"},
            {"secure": "0.0.0.0:10259", "health": "0.0.0.0:8081"},
        ),
        (
            ("--bind-address=0.0.0.0", "--secure-port=10259", "--serve=127.0.0.1:1"),
            {"secure": "0.0.0.0:10259", "loopback": "127.0.0.1:1"},
            {"secure": "0.0.0.0:10259", "loopback": "127.0.0.1:1"},
        ),
    ],
)
def test_ports(arguments: tuple[str, ...], outside: dict[str, str], inside: dict[str, str]) -> None:
    """Loopback outside of a cluster, the secure port inside or where a flag asks for it."""
    assert (outside, inside) == (ports(serving(*arguments)), ports(serving(*arguments, in_cluster=True)))


def test_values_reach_their_place() -> None:
    """Lists by commas or repetition, durations, switches."""
    found = serving(
        *("--authorization-always-allow-paths=/livez,/metrics", "--authorization-always-allow-paths=/x/*"),
        *("--authentication-token-webhook-cache-ttl=1m", "--authentication-skip-lookup", "--permit-port-sharing=true"),
        *("--authentication-tolerate-lookup-failure=false", "--authorization-webhook-cache-unauthorized-ttl=500ms"),
    ).secure
    assert found is not None
    assert ("/livez", "/metrics", "/x/*") == found.authorization.always_allow_paths
    assert (60.0, True, False) == (
        found.authentication.cache_ttl,
        found.authentication.skip_lookup,
        found.authentication.tolerate_lookup_failure,
    )
    assert (10.0, 0.5, True) == (
        found.authorization.authorized_ttl,
        found.authorization.unauthorized_ttl,
        found.permit_port_sharing,
    )


def test_in_a_cluster_is_where_the_service_account_is_used(tmp_path: Path) -> None:
    """Not where a kubeconfig comes first."""
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(trustme.CA().cert_pem.bytes())
    environment = {"KUBERNETES_SERVICE_HOST": "10.0.0.1", "HOME": str(tmp_path)}
    assert find_credentials("", environment=environment, account=tmp_path).in_cluster
    assert not find_credentials(str(kubeconfig(tmp_path)), environment=environment, account=tmp_path).in_cluster


def kubeconfig(folder: Path) -> Path:
    file = folder / "kubeconfig"
    cluster = {"name": "x", "cluster": {"server": f"https://127.0.0.1:{free_port()}"}}
    content = {"current-context": "x", "clusters": [cluster], "users": [{"name": "x", "user": {"token": "t"}}]}
    file.write_text(json.dumps({**content, "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}]}))
    return file


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["run", "--kubeconfig", str(kubeconfig(folder)), *arguments])
    return done.exit_code, done.output.splitlines()[-1]


def test_what_cannot_be_served_ends_the_process_at_once(tmp_path: Path) -> None:
    """Before the API server is asked: one sentence, 2 for bad input, 1 for a port that is taken."""
    cert, key = tmp_path / "a.crt", tmp_path / "a.key"
    trustme.CA().issue_cert("x").cert_chain_pems[0].write_to_path(cert)
    trustme.CA().issue_cert("x").private_key_pem.write_to_path(key)
    files = (f"--tls-cert-file={cert}", f"--tls-private-key-file={key}")
    reason = "give a PEM certificate and its own key, without a passphrase"
    sentence = (
        f"trimtab: the certificate {cert} and the key {key} cannot be used together (KEY_VALUES_MISMATCH): {reason}."
    )
    assert (2, sentence) == run(tmp_path, *files)
    missing = "trimtab: the client CA of --client-ca-file /nonexistent cannot be read: No such file or directory"
    assert (2, True) == (lambda code, line: (code, line.startswith(missing)))(
        *run(tmp_path, "--client-ca-file=/nonexistent")
    )
    code, line = run(tmp_path, "--authentication-kubeconfig=/nonexistent")
    assert (2, True) == (
        code,
        line.startswith("trimtab: --authentication-kubeconfig: the kubeconfig /nonexistent cannot"),
    )


@pytest.mark.parametrize(
    "flag", ["--serve=127.0.0.1:{}", "--secure-port={}", "--health-probe-bind-address=127.0.0.1:{}"]
)
def test_a_port_that_is_taken(tmp_path: Path, flag: str) -> None:
    """Exit code 1: it is not the flag that is wrong. The sentence names the address and the flag."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, line = run(tmp_path, "--bind-address=127.0.0.1", "--secure-port=0", flag.format(port))
    name = flag.partition("=")[0]
    assert (1, f"trimtab: cannot serve on 127.0.0.1:{port}: Address already in use. Choose another {name}.") == (
        code,
        line,
    )

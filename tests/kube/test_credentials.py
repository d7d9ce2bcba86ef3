"""Kubeconfigs are read as the `kubernetes` package reads them, and rejected clearly where it would guess."""

from __future__ import annotations

import base64
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client as oracle_client
from kubernetes import config as oracle_config

from tests.kube import certificates
from trimtab.kube.credentials import Credentials, CredentialsError, find_credentials

NOWHERE = Path("/nowhere")


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def written(folder: Path, cluster: dict[str, Any], user: dict[str, Any], name: str = "config", **more: Any) -> Path:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
    }
    path = folder / name
    path.write_text(yaml.safe_dump(document | more))
    return path


def files(folder: Path) -> None:
    pair = certificates.client()
    (folder / "ca.pem").write_bytes(certificates.authority_pem())
    (folder / "cert.pem").write_bytes(pair.certificate)
    (folder / "key.pem").write_bytes(pair.key)
    (folder / "token").write_text("from-file")


PAIR = {"client-certificate": "cert.pem", "client-key": "key.pem"}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "files beside the kubeconfig": ({"certificate-authority": "ca.pem"}, PAIR),
    "data in the kubeconfig": (
        {"certificate-authority-data": b64(certificates.authority_pem())},
        {
            "client-certificate-data": b64(certificates.client().certificate),
            "client-key-data": b64(certificates.client().key),
        },
    ),
    "data wins over files": (
        {"certificate-authority": "absent", "certificate-authority-data": b64(certificates.authority_pem())},
        PAIR
        | {"client-certificate-data": b64(certificates.client("other").certificate)}
        | {"client-key-data": b64(certificates.client("other").key)},
    ),
    "token": ({"certificate-authority": "ca.pem"}, {"token": "a.b.c"}),
    "token file": ({"certificate-authority": "ca.pem"}, {"tokenFile": "token"}),
    "password": ({"certificate-authority": "ca.pem"}, {"username": "ann", "password": "pa:ss"}),
    "certificate and token": ({"certificate-authority": "ca.pem"}, PAIR | {"token": "t"}),
    "insecure": ({"insecure-skip-tls-verify": True}, {"token": "t"}),
    "another server name": ({"certificate-authority": "ca.pem", "tls-server-name": "inner"}, {"token": "t"}),
    "proxy": ({"certificate-authority": "ca.pem", "proxy-url": "http://proxy:3128"}, {"token": "t"}),
    "path below the host": ({"server": "https://rancher/k8s/clusters/c-1/", "certificate-authority": "ca.pem"}, {}),
}


def oracle(path: str, context: str | None = None) -> oracle_client.Configuration:
    configuration = oracle_client.Configuration()
    oracle_config.load_kube_config(path, context=context, client_configuration=configuration)
    return configuration


async def authorization(credentials: Credentials) -> str | None:
    return (await credentials.auth_state()).headers.get("Authorization")


def der(path: str | None) -> bytes | None:
    return certificates.der(Path(path).read_bytes()) if path else None


@pytest.mark.parametrize("case", CASES)
async def test_reads_as_the_kubernetes_package(case: str, tmp_path: Path) -> None:
    """Server, authority, certificate, token, name and proxy are those that the `kubernetes` package reads."""
    files(tmp_path)
    cluster, user = CASES[case]
    path = written(tmp_path, {"server": "https://localhost:6443"} | cluster, user)
    expected, ours = oracle(str(path)), find_credentials(str(path))
    assert expected.host == ours.server
    identity = await ours.auth_state()
    assert expected.api_key.get("BearerToken") == identity.headers.get("Authorization")
    assert (expected.tls_server_name or "") == ours.server_name
    assert (expected.proxy or "") == ours.proxy
    assert identity.context is not None
    assert expected.verify_ssl == (identity.context.verify_mode == ssl.CERT_REQUIRED)
    assert der(expected.ssl_ca_cert) == (identity.context.get_ca_certs(binary_form=True) or [None])[0]
    assert der(expected.cert_file) == certificates.shown(identity.context, certificates.server_context())


async def test_trusts_no_other_authority(tmp_path: Path) -> None:
    """A server of another authority, or of another name, is not supported to."""
    files(tmp_path)
    path = written(tmp_path, {"server": "https://localhost", "certificate-authority": "ca.pem"}, {"token": "t"})
    context = (await find_credentials(str(path)).auth_state()).context
    assert context is not None
    for server in (
        certificates.server_context(issuer=certificates.other_authority()),
        certificates.server_context("elsewhere"),
    ):
        with pytest.raises(ssl.SSLCertVerificationError):
            certificates.shown(context, server)


async def test_several_files_merge(tmp_path: Path) -> None:
    """The first file to set a name wins, paths stay relative to their own file, and missing files are passed over."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "token").write_text("deep-token")
    first = written(tmp_path, {"server": "https://first"}, {"token": "first"}, "first", users=[], contexts=[])
    second = written(
        tmp_path / "deep",
        {"server": "https://second"},
        {"tokenFile": "token"},
        "second",
    )
    listed = os.pathsep.join([str(tmp_path / "absent"), str(first), str(second)])
    ours = find_credentials(environment={"KUBECONFIG": listed, "HOME": str(NOWHERE)}, account=NOWHERE)
    expected = oracle(os.pathsep.join([str(first), str(second)]))
    assert "https://first" == expected.host == ours.server
    assert "Bearer deep-token" == expected.api_key["BearerToken"] == await authorization(ours)


def test_the_first_current_context_wins(tmp_path: Path) -> None:
    """As in kubectl; the `kubernetes` package lets the last one win."""
    contexts = [{"name": n, "context": {"cluster": "c", "user": "u"}} for n in ("one", "two")]
    paths = [
        written(tmp_path, {"server": "http://x"}, {}, name, contexts=contexts, **{"current-context": name})
        for name in ("one", "two")
    ]
    listed = os.pathsep.join(str(path) for path in paths)
    assert "context 'one' of" in find_credentials(environment={"KUBECONFIG": listed}, account=NOWHERE).origin


async def test_what_the_package_stumbles_over(tmp_path: Path) -> None:
    """A null is an absent field, a token ends before its line does, and passwords are UTF-8."""
    (tmp_path / "token").write_text("from-file\n")
    server = {"server": "http://x", "proxy-url": None}
    token = find_credentials(str(written(tmp_path, server, {"tokenFile": "token", "exec": None})))
    assert "Bearer from-file" == await authorization(token)
    password = find_credentials(str(written(tmp_path, server, {"username": "ann", "password": "ä"})))
    assert f"Basic {b64('ann:ä'.encode())}" == await authorization(password)


def test_named_context(tmp_path: Path) -> None:
    """A context named on purpose is taken instead of the current one."""
    contexts = [{"name": n, "context": {"cluster": "c", "user": "u"}} for n in ("here", "there")]
    path = written(tmp_path, {"server": "http://x"}, {}, contexts=contexts)
    assert "context 'there' of" in find_credentials(str(path), "there").origin


async def test_a_token_file_wins_over_a_token(tmp_path: Path) -> None:
    """As in kubectl, the file is the fresher of the two."""
    files(tmp_path)
    path = written(tmp_path, {"server": "http://x"}, {"token": "old", "tokenFile": "token"})
    assert "Bearer from-file" == await authorization(find_credentials(str(path)))


@pytest.mark.parametrize(
    ("server", "cluster", "expected"),
    [
        ("host:8080", {}, "http://host:8080"),
        ("host:6443", {"insecure-skip-tls-verify": True}, "https://host:6443"),
        ("https://host", {}, "https://host"),
    ],
)
def test_a_server_without_scheme(server: str, cluster: dict[str, Any], expected: str, tmp_path: Path) -> None:
    """TLS is meant wherever anything speaks of TLS, as in kubectl."""
    assert expected == find_credentials(str(written(tmp_path, {"server": server} | cluster, {}))).server


async def test_in_cluster(tmp_path: Path) -> None:
    """In a pod the service account is used, before the home folder and after KUBECONFIG."""
    (tmp_path / "token").write_text("sa-token")
    (tmp_path / "ca.crt").write_bytes(certificates.authority_pem())
    pod = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443", "HOME": str(NOWHERE)}
    ours = find_credentials(environment=pod, account=tmp_path)
    assert "https://[fd00::1]:443" == ours.server
    assert "Bearer sa-token" == await authorization(ours)
    path = written(tmp_path, {"server": "http://from-kubeconfig"}, {})
    assert (
        "http://from-kubeconfig"
        == find_credentials(environment=pod | {"KUBECONFIG": str(path)}, account=tmp_path).server
    )


def test_the_home_folder_comes_last(tmp_path: Path) -> None:
    """Without anything else ~/.kube/config is read."""
    (tmp_path / ".kube").mkdir()
    written(tmp_path / ".kube", {"server": "http://home"}, {})
    assert "http://home" == find_credentials(environment={"HOME": str(tmp_path)}, account=NOWHERE).server


def test_no_kubeconfig_says_what_was_tried(tmp_path: Path) -> None:
    """The sentence names every place and what to do."""
    with pytest.raises(CredentialsError, match=r"tried KUBECONFIG \(unset\) and .*/\.kube/config.*Set --kubeconfig"):
        find_credentials(environment={"HOME": str(tmp_path)}, account=NOWHERE)
    with pytest.raises(CredentialsError, match=r"tried KUBECONFIG \(/absent\)"):
        find_credentials(environment={"HOME": str(tmp_path), "KUBECONFIG": "/absent"}, account=NOWHERE)


SERVER = {"server": "https://x"}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = {
    "wrong context": (SERVER, {}, {"current-context": "gone"}, "no context named 'gone' (it has: here)"),
    "no context": (SERVER, {}, {"current-context": ""}, "sets no current-context"),
    "no such user": (SERVER, {}, {"users": []}, "no user named 'u' (it has: none)"),
    "no server": ({}, {}, {}, "has no server"),
    "strange scheme": ({"server": "ftp://x"}, {}, {}, "neither http nor https"),
    "unclosed bracket": ({"server": "https://[::1"}, {}, {}, "the server https://[::1 is not a URL: Invalid IPv6 URL"),
    "impossible port": ({"server": "https://x:99999"}, {}, {}, "is not a URL: Port out of range"),
    "no host": ({"server": "https://"}, {}, {}, "has no host"),
    "broken proxy": (
        SERVER | {"proxy-url": "http://u:secret@[::1"},
        {},
        {},
        "proxy-url is not a URL: Invalid IPv6 URL",
    ),
    "proxy without a host": (
        SERVER | {"proxy-url": "http://u:hunter2"},
        {},
        {},
        "proxy-url is not a URL: only http and",
    ),
    "wrong type": ({"server": 5}, {}, {}, "is invalid: Expected `str`"),
    "authority and insecure": (
        SERVER | {"insecure-skip-tls-verify": True, "certificate-authority-data": "AA=="},
        {},
        {},
        "both a certificate authority and insecure-skip-tls-verify",
    ),
    "authority no certificate": (SERVER | {"certificate-authority-data": "AA=="}, {}, {}, "not a PEM certificate"),
    "authority missing": (SERVER | {"certificate-authority": "gone"}, {}, {}, "gone: No such file"),
    "not base64": (SERVER | {"certificate-authority-data": "%"}, {}, {}, "is not valid base64"),
    "certificate alone": (SERVER, {"client-certificate": "cert.pem"}, {}, "without its key"),
    "pair does not match": (
        SERVER,
        {"client-certificate": "cert.pem", "client-key-data": b64(certificates.client("other").key)},
        {},
        "cannot be used together",
    ),
    "token and password": (SERVER, {"token": "t", "username": "u"}, {}, "both a token and a username"),
    "token of two lines": (SERVER, {"token": "t\nX-Evil: 1"}, {}, "line breaks"),
    "auth provider": (SERVER, {"auth-provider": {"name": "gcp"}}, {}, "auth-provider 'gcp' is not supported"),
    "impersonation": (SERVER, {"as": "admin"}, {}, "impersonation (as) is not supported"),
    "socks proxy": (SERVER | {"proxy-url": "socks5://p"}, {}, {}, "proxy-url is neither http nor https"),
    "interactive plugin": (
        SERVER,
        {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1", "interactiveMode": "Always"}},
        {},
        "needs a terminal",
    ),
    "old plugin": (
        SERVER,
        {"exec": {"command": "x", "apiVersion": "client.authentication.k8s.io/v1alpha1"}},
        {},
        "v1alpha1: use client.authentication.k8s.io/v1",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused_with_a_sentence(case: str, tmp_path: Path) -> None:
    """What cannot work is refused with its reason, and never with a secret in it."""
    files(tmp_path)
    cluster, user, more, sentence = REFUSED[case]
    with pytest.raises(CredentialsError) as refusal:
        find_credentials(str(written(tmp_path, cluster, user, **more)))
    assert sentence in str(refusal.value)
    assert "PRIVATE" not in str(refusal.value)


@pytest.mark.parametrize("content", ["{", "[]", "- a\n- b", "\x00", "just words"])
def test_garbage_is_refused(content: str, tmp_path: Path) -> None:
    """A file that is no kubeconfig is named, without a traceback's worth of detail."""
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(CredentialsError, match=f"the kubeconfig {path}|{path} sets no current-context"):
        find_credentials(str(path))


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    """A path named on purpose must exist; nothing else is tried instead."""
    with pytest.raises(CredentialsError, match=r"gone cannot be read: No such file"):
        find_credentials(str(tmp_path / "gone"))

"""Credentials are renewed in time, and the old ones kept when that fails."""

from __future__ import annotations

import asyncio
import base64
import errno
import inspect
import json
import logging
import ssl
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.kube import certificates
from trimtab.config.trimtab.settings import Tls
from trimtab.kube.credentials import Credentials, exec_plugin
from trimtab.kube.credentials.auth import (
    CredentialSource,
    ExecCredentials,
    FileCredentials,
    TlsMaterial,
    client_context,
)
from trimtab.kube.credentials.kubeconfig import ClusterConfig, CredentialsError, Exec, UserConfig, Variable
from trimtab.sources.prometheus.client import _tls_context

V1 = "client.authentication.k8s.io/v1"


def token(value: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {value}"}


async def test_a_token_file_is_read_each_minute(tmp_path: Path) -> None:
    """A rotated token is used within 60 s, and not looked for at every request."""
    path = tmp_path / "token"
    path.write_text("old")
    source = FileCredentials(ClusterConfig(), UserConfig(token_file=str(path)), now=0.0)
    path.write_text("new")
    assert token("old") == (await source.auth_state(59.0, unauthorized=False)).headers
    assert token("new") == (await source.auth_state(60.0, unauthorized=False)).headers


async def test_a_token_file_is_read_at_once_when_refused(tmp_path: Path) -> None:
    """After any 401 the file is read again, however short ago that was done."""
    path = tmp_path / "token"
    path.write_text("old")
    source = FileCredentials(ClusterConfig(), UserConfig(token_file=str(path)), now=0.0)
    for number, name in enumerate(("new", "newer", "newest")):
        path.write_text(name)
        assert token(name) == (await source.auth_state(0.1 * number, unauthorized=True)).headers


@pytest.mark.parametrize("content", [None, "", "two\nlines", "sécret"])
async def test_the_last_good_token_stays(content: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A token file that vanishes, empties or breaks costs a warning, not the connection."""
    path = tmp_path / "token"
    path.write_text("secret-canary")
    source = FileCredentials(ClusterConfig(), UserConfig(token_file=str(path)), now=0.0)
    path.unlink() if content is None else path.write_text(content)
    with caplog.at_level(logging.DEBUG):
        assert token("secret-canary") == (await source.auth_state(60.0, unauthorized=False)).headers
    assert "keeping the old ones" in caplog.text
    assert "secret-canary" not in caplog.text


async def test_a_rotated_client_certificate_is_shown(tmp_path: Path) -> None:
    """New connections show the new certificate; one whose key has not been written yet is left for later."""
    user = UserConfig(client_certificate=str(tmp_path / "cert"), client_key=str(tmp_path / "key"))
    old, new = certificates.client("old"), certificates.client("new")
    (tmp_path / "cert").write_bytes(old.certificate)
    (tmp_path / "key").write_bytes(old.key)
    source = FileCredentials(cluster(certificates.authority_pem()), user, now=0.0)
    (tmp_path / "cert").write_bytes(new.certificate)
    assert certificates.der(old.certificate) == await shown(source, 60.0)
    (tmp_path / "key").write_bytes(new.key)
    assert certificates.der(new.certificate) == await shown(source, 120.0)


async def test_the_context_stays_while_nothing_changes(tmp_path: Path) -> None:
    """Connections are pooled by context, so a look at unchanged files must not make a new one."""
    source = FileCredentials(cluster(certificates.authority_pem()), UserConfig(), now=0.0)
    assert (await source.auth_state(0.0, unauthorized=False)).context is (
        await source.auth_state(60.0, unauthorized=True)
    ).context


async def test_a_rotated_authority_is_trusted(tmp_path: Path) -> None:
    """After the authority's file has changed, servers of the new authority are spoken to."""
    path = tmp_path / "ca"
    path.write_bytes(certificates.authority_pem())
    source = FileCredentials(ClusterConfig(server="https://x", certificate_authority=str(path)), UserConfig(), now=0.0)
    path.write_bytes(certificates.other_authority().cert_pem.bytes())
    rotated = certificates.server_context(issuer=certificates.other_authority())
    assert await shown(source, 60.0, rotated) is None


def cluster(authority: bytes) -> ClusterConfig:
    return ClusterConfig(server="https://x", certificate_authority_data=base64.b64encode(authority).decode())


async def shown(source: CredentialSource, now: float, server: ssl.SSLContext | None = None) -> bytes | None:
    context = (await source.auth_state(now, unauthorized=False)).context
    assert context is not None
    return certificates.shown(context, server or certificates.server_context())


def plugin(
    folder: Path, status: dict[str, Any] | str, version: str = V1, code: int = 0, seconds: float = 0.0, **more: Any
) -> Exec:
    """A program that notes each run and prints the status."""
    answer = status if isinstance(status, str) else json.dumps({"apiVersion": version, "status": status})
    script = folder / "plugin.py"
    script.write_text(
        "import os, sys, time\n"
        f"time.sleep({seconds})\n"
        f"with open({str(folder / 'runs')!r}, 'a') as runs:\n"
        "    runs.write(os.environ['KUBERNETES_EXEC_INFO'] + os.environ.get('EXTRA', '') + '\\n')\n"
        f"print({answer!r})\n"
        f"sys.exit({code})\n"
    )
    return Exec(command=sys.executable, args=(str(script),), api_version=version, **more)


def runs(folder: Path) -> list[str]:
    path = folder / "runs"
    return path.read_text().splitlines() if path.exists() else []


async def test_a_plugin_is_run_when_its_token_expires(tmp_path: Path) -> None:
    """One run serves until shortly before the expiry that it named, or until the server refuses."""
    stamp = {"token": "t", "expirationTimestamp": "1970-01-01T00:16:40Z"}
    wall = [0.0]
    source = ExecCredentials(plugin(tmp_path, stamp), ClusterConfig(), wall=lambda: wall[0])
    for now, refused, expected in ((0.0, False, 1), (989.0, False, 1), (989.5, True, 2), (990.0, False, 3)):
        wall[0] = now
        assert token("t") == (await source.auth_state(now, refused)).headers
        assert expected == len(runs(tmp_path))


async def test_a_clock_set_back_keeps_no_old_token(tmp_path: Path) -> None:
    """Neither a plugin's nor a file's: an hour less on the wall clock changes nothing."""
    wall = [10_000.0]
    stamp = {"token": "t", "expirationTimestamp": "1970-01-01T03:03:20Z"}  # 11,000 s: valid for 1,000 s
    source = ExecCredentials(plugin(tmp_path, stamp), ClusterConfig(), wall=lambda: wall[0])
    await source.auth_state(50.0, unauthorized=False)
    wall[0] -= 3_600.0
    await source.auth_state(1_039.0, unauthorized=False)
    assert 1 == len(runs(tmp_path))
    await source.auth_state(1_040.0, unauthorized=False)
    assert 2 == len(runs(tmp_path))


def test_time_passes_by_a_clock_that_never_jumps() -> None:
    """A minute between two reads of a file is a minute, whatever the wall clock does."""
    assert time.monotonic is inspect.signature(Credentials).parameters["clock"].default


@pytest.mark.parametrize("version", [V1, f"{V1}beta1"])
async def test_a_plugin_gets_its_input(version: str, tmp_path: Path) -> None:
    """It gets its version, its variables and, where it asks, the cluster."""
    given = plugin(tmp_path, {"token": "t"}, version, env=(Variable("EXTRA", "more"),), provide_cluster_info=True)
    await ExecCredentials(given, ClusterConfig(server="https://x")).auth_state(0.0, unauthorized=False)
    info = json.loads(runs(tmp_path)[0].removesuffix("more"))
    assert version == info["apiVersion"]
    assert {"interactive": False, "cluster": {"server": "https://x"}} == info["spec"]


async def test_a_plugin_may_issue_a_certificate(tmp_path: Path) -> None:
    """A certificate and key are shown on new connections, without a token."""
    pair = certificates.client("issued")
    status = {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()}
    source = ExecCredentials(plugin(tmp_path, status), cluster(certificates.authority_pem()))
    assert certificates.der(pair.certificate) == await shown(source, 0.0)
    assert {} == (await source.auth_state(0.0, unauthorized=False)).headers


@pytest.mark.parametrize(
    ("status", "code", "sentence"),
    [
        ({}, 0, "neither a token nor a certificate"),
        ("no json", 0, "did not print an ExecCredential"),
        ('{"apiVersion": "other/v1", "status": {"token": "t"}}', 0, "returned apiVersion 'other/v1'"),
        ({"token": "t", "expirationTimestamp": "soon"}, 0, "did not print an ExecCredential"),
        ({"token": "t", "expirationTimestamp": "0001-01-01T00:00:00"}, 0, "did not print an ExecCredential"),
        ({"token": "t"}, 3, "failed with exit code 3"),
        ({"token": "two\nlines"}, 0, "the token contains line breaks"),
        ({"token": "t\r\nImpersonate-User: admin"}, 0, "the token contains line breaks"),
        ({"token": "sécret"}, 0, "non-ASCII"),
    ],
)
async def test_a_bad_plugin_is_named(status: Any, code: int, sentence: str, tmp_path: Path) -> None:
    """The error says what is wrong, and contains nothing that the plugin printed."""
    with pytest.raises(CredentialsError, match=sentence):
        await ExecCredentials(plugin(tmp_path, status, code=code), ClusterConfig()).auth_state(0.0, unauthorized=False)


def is_running(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def endless(folder: Path, work: str) -> Exec:
    """A program that starts a child, notes both process ids, and never ends by itself."""
    script = folder / "endless.py"
    script.write_text(
        "import os, subprocess, sys, time\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"with open({str(folder / 'pids')!r}, 'w') as pids:\n"
        "    pids.write(f'{os.getpid()} {child.pid}')\n"
        f"while True:\n    {work}\n"
    )
    return Exec(command=sys.executable, args=(str(script),), api_version=V1)


async def pids(folder: Path) -> list[int]:
    """Of the program and its child, once they run."""
    while not (folder / "pids").exists() or not (folder / "pids").read_text():  # noqa: ASYNC110
        await asyncio.sleep(0.02)
    return [int(each) for each in (folder / "pids").read_text().split()]


async def assert_killed(folder: Path) -> None:
    async with asyncio.timeout(10.0):
        while any(map(is_running, await pids(folder))):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


async def test_a_plugin_that_prints_without_end_is_killed(tmp_path: Path) -> None:
    """After a megabyte, with its child; the error names it."""
    given = endless(tmp_path, "sys.stdout.write('x' * 65536)")
    with pytest.raises(CredentialsError, match=rf"the exec plugin {sys.executable} printed more than 1 MiB"):
        await ExecCredentials(given, ClusterConfig()).auth_state(0.0, unauthorized=False)
    await assert_killed(tmp_path)


@pytest.mark.parametrize("work", ["time.sleep(1)", "sys.exit(0)"])
async def test_a_plugin_that_hangs_is_killed(work: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At its time limit, with its child, which holds the pipe open; also where only the child is left."""
    monkeypatch.setattr(exec_plugin, "TIMEOUT", 2.0)
    with pytest.raises(CredentialsError, match=rf"the exec plugin {sys.executable} timed out after 2 s"):
        await ExecCredentials(endless(tmp_path, work), ClusterConfig()).auth_state(0.0, unauthorized=False)
    await assert_killed(tmp_path)


def test_a_plugin_does_not_outlive_the_process(tmp_path: Path) -> None:
    """When the event loop ends while it runs, it is killed."""

    async def start() -> None:
        source = ExecCredentials(endless(tmp_path, "time.sleep(1)"), ClusterConfig())
        asking = asyncio.create_task(source.auth_state(0.0, unauthorized=False))
        await pids(tmp_path)
        asking.cancel()

    asyncio.run(start())
    asyncio.run(assert_killed(tmp_path))


async def test_a_missing_plugin_comes_with_its_hint() -> None:
    """The kubeconfig's own install hint is passed on."""
    missing = Exec(command="no-such-plugin", api_version=V1, install_hint="get it at example.com")
    with pytest.raises(CredentialsError, match=r"cannot be run: No such file.*; get it at example\.com") as failure:
        await ExecCredentials(missing, ClusterConfig()).auth_state(0.0, unauthorized=False)
    assert failure.value.permanent


async def test_a_shortage_of_processes_may_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is there: another time it can be run."""

    async def refuse(*command: str, **options: Any) -> None:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("asyncio.create_subprocess_exec", refuse)
    with pytest.raises(CredentialsError, match="cannot be run: Resource temporarily") as failure:
        await ExecCredentials(Exec(command="p", api_version=V1), ClusterConfig()).auth_state(0.0, unauthorized=False)
    assert not failure.value.permanent


async def test_a_run_outlives_a_caller_that_times_out(tmp_path: Path) -> None:
    """A caller that times out does not end the run: the next caller gets its token, and the plugin has run once."""
    source = ExecCredentials(plugin(tmp_path, {"token": "t"}, seconds=0.5), ClusterConfig())
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(source.auth_state(0.0, unauthorized=False), 0.1)
    assert token("t") == (await source.auth_state(0.0, unauthorized=False)).headers
    assert 1 == len(runs(tmp_path))


async def test_after_a_failed_run_the_next_is_another(tmp_path: Path) -> None:
    """A failure goes to those that waited for it, and is not cached."""
    source = ExecCredentials(plugin(tmp_path, {}), ClusterConfig())
    with pytest.raises(CredentialsError):
        await source.auth_state(0.0, unauthorized=False)
    plugin(tmp_path, {"token": "t"})
    assert token("t") == (await source.auth_state(0.0, unauthorized=False)).headers


@pytest.mark.parametrize(
    "context", [client_context(TlsMaterial()), _tls_context(Tls())], ids=["API server", "Prometheus"]
)
def test_no_version_below_tls_1_2_is_spoken(context: ssl.SSLContext) -> None:
    """Not even where the system's OpenSSL settings would allow it."""
    old = certificates.server_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        old.minimum_version, old.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    for each in (context, old):
        each.set_ciphers("DEFAULT@SECLEVEL=0")
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with pytest.raises(ssl.SSLError, match="UNSUPPORTED_PROTOCOL"):
        certificates.shown(context, old)

"""Runs exec credential plugins (client.authentication.k8s.io v1 and v1beta1).

The program prints an ExecCredential with a token, or a certificate and its key, and optionally when they expire. One that
takes too long, prints too much, or is no longer waited for is killed, with all processes that it has started.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from trimtab.kube.credentials.kubeconfig import ClusterConfig, CredentialsError, Exec

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
TIMEOUT = 60.0
MAX_OUTPUT_BYTES = 1 << 20
CHUNK = 1 << 16
# Not a missing, forbidden or broken program: the system is short of something now.
SHORTAGES = (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
REAP_TIMEOUT = 5.0


class IssuedCredential(NamedTuple):
    """What the plugin returned; `expires` is in epoch seconds, None for never."""

    token: str
    certificate: bytes
    key: bytes
    expires: float | None


class _CredentialStatus(Struct, frozen=True, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(Struct, frozen=True, rename="camel"):
    api_version: str = ""
    status: _CredentialStatus | None = None


def validate(plugin: Exec) -> None:
    """Reject plugins that cannot work here."""
    if plugin.api_version not in VERSIONS:
        raise CredentialsError(
            f"the exec plugin {plugin.command} has the apiVersion {plugin.api_version or '(none)'}: use {VERSIONS[0]}"
        )
    if plugin.interactive_mode == "Always":
        raise CredentialsError(
            f"the exec plugin {plugin.command} needs a terminal (interactiveMode Always): use another one"
        )


async def run_plugin(plugin: Exec, cluster: ClusterConfig) -> IssuedCredential:
    """Run the plugin once."""
    environment = dict(os.environ) | {item.name: item.value for item in plugin.env}
    environment["KUBERNETES_EXEC_INFO"] = _exec_info(plugin, cluster)
    return _read(plugin, await _output(plugin, environment))


async def _output(plugin: Exec, environment: dict[str, str]) -> bytes:
    async with _started(plugin, environment) as process:
        try:
            async with asyncio.timeout(TIMEOUT):
                output = await _read_bounded(plugin, process)
                code = await process.wait()
        except TimeoutError:
            raise CredentialsError(f"the exec plugin {plugin.command} timed out after {TIMEOUT:.0f} s") from None
    if code:
        raise CredentialsError(f"the exec plugin {plugin.command} failed with exit code {code}; run it by hand")
    return output


@asynccontextmanager
async def _started(plugin: Exec, environment: dict[str, str]) -> AsyncIterator[asyncio.subprocess.Process]:
    """The running plugin, in a process group of its own; if the block fails or is cancelled, all of it is killed."""
    pipe, devnull = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env=environment,
            stdin=devnull,
            stdout=pipe,
            stderr=devnull,
            start_new_session=True,
        )
    except OSError as error:
        hint = f"; {plugin.install_hint.strip()}" if plugin.install_hint else ""
        raise CredentialsError(
            f"the exec plugin {plugin.command} cannot be run: {error.strerror}{hint}",
            permanent=error.errno not in SHORTAGES,
        ) from None
    try:
        yield process
    except BaseException:
        with suppress(ProcessLookupError):  # the program itself may have ended, and left another one
            os.killpg(process.pid, signal.SIGKILL)
        await _reap(process)
        raise


async def _reap(process: asyncio.subprocess.Process) -> None:
    """Wait for the end of a killed process; asyncio reports it only once its pipe has been read to the end."""
    assert process.stdout is not None
    with suppress(TimeoutError):  # a process that has left the group may keep the pipe open
        async with asyncio.timeout(REAP_TIMEOUT):
            while await process.stdout.read(CHUNK):
                pass
            await process.wait()


async def _read_bounded(plugin: Exec, process: asyncio.subprocess.Process) -> bytes:
    output, stdout = bytearray(), process.stdout
    assert stdout is not None
    while chunk := await stdout.read(CHUNK):
        output += chunk
        if len(output) > MAX_OUTPUT_BYTES:
            limit = f"{MAX_OUTPUT_BYTES >> 20} MiB"
            raise CredentialsError(f"the exec plugin {plugin.command} printed more than {limit}; run it by hand")
    return bytes(output)


def _exec_info(plugin: Exec, cluster: ClusterConfig) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster_info:
        spec["cluster"] = _cluster_info(cluster)
    info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
    return msgspec.json.encode(info).decode()


def _cluster_info(cluster: ClusterConfig) -> dict[str, Any]:
    extensions = {item.get("name"): item.get("extension") for item in cluster.extensions}
    info = {
        "server": cluster.server,
        "tls-server-name": cluster.tls_server_name,
        "insecure-skip-tls-verify": cluster.insecure_skip_tls_verify,
        "certificate-authority-data": cluster.certificate_authority_data,
        "proxy-url": cluster.proxy_url,
        "config": extensions.get(f"{GROUP}/exec"),
    }
    return {key: value for key, value in info.items() if value}


def _read(plugin: Exec, output: bytes) -> IssuedCredential:
    try:
        credential = msgspec.json.decode(output, type=_ExecCredential)
        status = credential.status or _CredentialStatus()
        stamp = status.expiration_timestamp
        expires = datetime.fromisoformat(stamp).timestamp() if stamp else None
    except (ValueError, OverflowError):
        raise CredentialsError(f"the exec plugin {plugin.command} did not print an ExecCredential") from None
    if credential.api_version != plugin.api_version:
        raise CredentialsError(
            f"the exec plugin {plugin.command} returned apiVersion {credential.api_version!r} instead of {plugin.api_version}"
        )
    if not status.token and not (status.client_certificate_data and status.client_key_data):
        raise CredentialsError(
            f"the exec plugin {plugin.command} returned neither a token nor a certificate with its key"
        )
    return IssuedCredential(
        status.token, status.client_certificate_data.encode(), status.client_key_data.encode(), expires
    )

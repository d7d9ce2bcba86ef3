"""Runs exec credential plugins (client.authentication.k8s.io v1 and v1beta1).

The program prints an ExecCredential with a token, or a certificate and its key, and optionally when they expire.
"""

from __future__ import annotations

import asyncio
import os
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from trimtab.kube.credentials.kubeconfig import ClusterConfig, CredentialsError, Exec

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
TIMEOUT = 60.0


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
    pipe, devnull = asyncio.subprocess.PIPE, asyncio.subprocess.DEVNULL
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command, *plugin.args, env=environment, stdin=devnull, stdout=pipe, stderr=devnull
        )
    except OSError as error:
        hint = f"; {plugin.install_hint.strip()}" if plugin.install_hint else ""
        raise CredentialsError(f"the exec plugin {plugin.command} cannot be run: {error.strerror}{hint}") from None
    try:
        output, _ = await asyncio.wait_for(process.communicate(), TIMEOUT)
    except TimeoutError:
        process.kill()
        await process.wait()
        raise CredentialsError(f"the exec plugin {plugin.command} timed out after {TIMEOUT:.0f} s") from None
    if process.returncode:
        raise CredentialsError(
            f"the exec plugin {plugin.command} failed with exit code {process.returncode}; run it by hand"
        )
    return output


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

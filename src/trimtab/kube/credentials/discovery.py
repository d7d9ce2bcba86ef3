"""Decides which API server is meant and who we are to it; leaves renewing that proof, and sending, to others.

Sought in this order: a path named on purpose, KUBECONFIG, the service account of the pod we run in, ~/.kube/config.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from trimtab.kube.credentials.auth import AuthState, CredentialSource, ExecCredentials, FileCredentials
from trimtab.kube.credentials.kubeconfig import Cluster, CredentialsError, ResolvedContext, User, resolve_context

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Credentials:
    """An API server's address, and what proves who we are to it."""

    def __init__(self, cluster: Cluster, user: User, origin: str, clock: Callable[[], float] = time.time) -> None:
        _validate(cluster, user, origin)
        self.origin = origin
        self.server = _address(cluster, user)
        self.server_name = cluster.tls_server_name
        self.proxy = cluster.proxy_url
        self._clock = clock
        meant = msgspec.structs.replace(cluster, server=self.server)
        self._source: CredentialSource = (
            FileCredentials(meant, user, clock()) if user.exec is None else ExecCredentials(user.exec, meant)
        )

    async def auth_state(self, unauthorized: bool = False) -> AuthState:
        """Who we are by now; `refused` after a 401, so that what was rotated is read at once."""
        return await self._source.auth_state(self._clock(), unauthorized)


def find_credentials(
    path: str = "",
    context: str = "",
    environment: Mapping[str, str] = os.environ,
    account: Path = SERVICE_ACCOUNT,
) -> Credentials:
    """The credentials to use here, or a CredentialsError that says where they were sought."""
    if path:
        return _from_files([Path(path).expanduser()], context)
    listed = [Path(item) for item in environment.get("KUBECONFIG", "").split(os.pathsep) if item]
    if existing := [item for item in listed if item.exists()]:
        return _from_files(existing, context)
    if environment.get("KUBERNETES_SERVICE_HOST") and (account / "token").exists() and not context:
        return _in_cluster(environment, account)
    usual = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
    if not listed and usual.exists():
        return _from_files([usual], context)
    tried = f"KUBECONFIG ({environment['KUBECONFIG']})" if listed else f"KUBECONFIG (unset) and {usual}"
    raise CredentialsError(
        f"no kubeconfig found: tried {tried}, and this is no pod with a service account. "
        "Name a file with --kubeconfig, in clientConnection.kubeconfig or in KUBECONFIG"
    )


def _from_files(paths: list[Path], context: str) -> Credentials:
    choice: ResolvedContext = resolve_context(paths, context)
    files = os.pathsep.join(str(path) for path in paths)
    return Credentials(choice.cluster, choice.user, f"context {choice.context!r} of {files}")


def _in_cluster(environment: Mapping[str, str], account: Path) -> Credentials:
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    cluster = Cluster(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        certificate_authority=str(account / "ca.crt"),
    )
    return Credentials(cluster, User(token_file=str(account / "token")), f"service account in {account}")


def _address(cluster: Cluster, user: User) -> str:
    """The server with its scheme; without one, TLS is meant wherever anything speaks of TLS."""
    server = cluster.server.rstrip("/")
    if "://" in server:
        return server
    authority = cluster.certificate_authority or cluster.certificate_authority_data
    certificate = user.client_certificate or user.client_certificate_data
    secure = bool(authority or certificate) or cluster.insecure_skip_tls_verify
    return f"{'https' if secure else 'http'}://{server}"


def _validate(cluster: Cluster, user: User, origin: str) -> None:
    """Refuse what kubectl refuses and what we do not speak, instead of going on as somebody else."""
    if fault := _cluster_error(cluster) or _user_error(user):
        raise CredentialsError(f"{origin}: {fault}")


def _cluster_error(cluster: Cluster) -> str:
    if not cluster.server:
        return "the cluster has no server: add its address"
    if "://" in cluster.server and urlsplit(cluster.server).scheme not in ("http", "https"):
        return f"the server {cluster.server} is neither http nor https"
    if cluster.insecure_skip_tls_verify and (cluster.certificate_authority or cluster.certificate_authority_data):
        return "the cluster has both a certificate authority and insecure-skip-tls-verify: keep one"
    if cluster.proxy_url and urlsplit(cluster.proxy_url).scheme not in ("http", "https"):
        return "the cluster's proxy-url is neither http nor https: only these proxies are spoken"
    return ""


def _user_error(user: User) -> str:
    certificate = bool(user.client_certificate or user.client_certificate_data)
    if certificate != bool(user.client_key or user.client_key_data):
        return "the user has a client certificate without its key, or a key without its certificate: name both"
    if user.username and (user.token or user.token_file):
        return "the user has both a token and a username: keep one"
    if user.auth_provider is not None and user.exec is None:
        name = user.auth_provider.get("name", "?")
        return f"the user's auth-provider {name!r} is not spoken (kubectl has dropped most, too): use an exec plugin"
    if user.act_as:
        return "the user acts as somebody else (as), which is not spoken: log in as that user"
    return ""

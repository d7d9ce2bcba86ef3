"""Finds the API server and its credentials.

Searched in this order: an explicit path, KUBECONFIG, the service account of the pod we run in, ~/.kube/config.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from trimtab.kube.credentials.auth import AuthState, CredentialSource, ExecCredentials, FileCredentials
from trimtab.kube.credentials.kubeconfig import (
    ClusterConfig,
    CredentialsError,
    ResolvedContext,
    UserConfig,
    resolve_context,
)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class Credentials:
    """An API server's address and our credentials for it."""

    def __init__(
        self, cluster: ClusterConfig, user: UserConfig, origin: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        _validate(cluster, user, origin)
        self.origin = origin
        self.in_cluster = False  # whether this is the service account of the pod that we run in
        self.server = _address(cluster, user)
        self.server_name = cluster.tls_server_name
        self.proxy = cluster.proxy_url
        self._clock, self._cluster, self._user = clock, cluster, user
        resolved = msgspec.structs.replace(cluster, server=self.server)
        self._source: CredentialSource = (
            FileCredentials(resolved, user, clock()) if user.exec is None else ExecCredentials(user.exec, resolved)
        )

    def copy(self) -> Credentials:
        """The same credentials, read or issued anew: for a thread of its own, as these belong to one event loop."""
        copy = Credentials(self._cluster, self._user, self.origin, self._clock)
        copy.in_cluster = self.in_cluster
        return copy

    async def auth_state(self, unauthorized: bool = False) -> AuthState:
        """The current headers and TLS context; pass `unauthorized` after a 401 to read rotated credentials at once."""
        return await self._source.auth_state(self._clock(), unauthorized)


def find_credentials(
    path: str = "",
    context: str = "",
    environment: Mapping[str, str] = os.environ,
    account: Path = SERVICE_ACCOUNT,
    server: str = "",
) -> Credentials:
    """The credentials, or a CredentialsError that says where they were searched.

    `server` is an address in place of the one found; without a kubeconfig there are no credentials for it.
    """
    if path:
        return _from_files([Path(path).expanduser()], context, server)
    listed = [Path(item) for item in environment.get("KUBECONFIG", "").split(os.pathsep) if item]
    if existing := [item for item in listed if item.exists()]:
        return _from_files(existing, context, server)
    if server:
        return Credentials(ClusterConfig(server=server), UserConfig(), "--master")
    if environment.get("KUBERNETES_SERVICE_HOST") and (account / "token").exists() and not context:
        return _in_cluster(environment, account)
    default = Path(environment.get("HOME", "~")).expanduser() / ".kube" / "config"
    if not listed and default.exists():
        return _from_files([default], context)
    tried = f"KUBECONFIG ({environment['KUBECONFIG']})" if listed else f"KUBECONFIG (unset) and {default}"
    raise CredentialsError(
        f"no kubeconfig found: tried {tried}, and there is no service account. "
        "Set --kubeconfig, clientConnection.kubeconfig or KUBECONFIG"
    )


def _from_files(paths: list[Path], context: str, server: str = "") -> Credentials:
    resolved: ResolvedContext = resolve_context(paths, context)
    files = os.pathsep.join(str(path) for path in paths)
    cluster = msgspec.structs.replace(resolved.cluster, server=server) if server else resolved.cluster
    return Credentials(cluster, resolved.user, f"context {resolved.context!r} of {files}")


def _in_cluster(environment: Mapping[str, str], account: Path) -> Credentials:
    host, port = environment["KUBERNETES_SERVICE_HOST"], environment.get("KUBERNETES_SERVICE_PORT", "443")
    cluster = ClusterConfig(
        server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        certificate_authority=str(account / "ca.crt"),
    )
    found = Credentials(cluster, UserConfig(token_file=str(account / "token")), f"service account in {account}")
    found.in_cluster = True
    return found


def _address(cluster: ClusterConfig, user: UserConfig) -> str:
    """The server URL; without a scheme it is https if any TLS setting is given."""
    server = cluster.server.rstrip("/")
    if "://" in server:
        return server
    authority = cluster.certificate_authority or cluster.certificate_authority_data
    certificate = user.client_certificate or user.client_certificate_data
    secure = bool(authority or certificate) or cluster.insecure_skip_tls_verify
    return f"{'https' if secure else 'http'}://{server}"


def _validate(cluster: ClusterConfig, user: UserConfig, origin: str) -> None:
    """Reject what kubectl rejects and what is not supported, instead of authenticating as somebody else."""
    if error := _cluster_error(cluster) or _user_error(user):
        raise CredentialsError(f"{origin}: {error}")


def _cluster_error(cluster: ClusterConfig) -> str:
    if not cluster.server:
        return "the cluster has no server: add its address"
    if problem := _url_problem(cluster.server if "://" in cluster.server else f"https://{cluster.server}"):
        return f"the server {cluster.server} {problem}"
    if cluster.insecure_skip_tls_verify and (cluster.certificate_authority or cluster.certificate_authority_data):
        return "the cluster has both a certificate authority and insecure-skip-tls-verify: keep one"
    if cluster.proxy_url and (problem := _url_problem(cluster.proxy_url)):
        return f"the cluster's proxy-url {problem}: only http and https proxies are supported"
    return ""


def _url_problem(url: str) -> str:
    """Why nothing can be sent to it; empty if it can. No part of the URL is repeated: that of a proxy may have a password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return "is not a URL" if "'" in str(error) else f"is not a URL: {error}"  # a quote begins a part of the URL
    if parts.scheme not in ("http", "https"):
        return "is neither http nor https"
    return "has no host" if not parts.hostname else "has port 0" if port == 0 else ""


def _user_error(user: UserConfig) -> str:
    certificate = bool(user.client_certificate or user.client_certificate_data)
    if certificate != bool(user.client_key or user.client_key_data):
        return "the user has a client certificate without its key, or a key without its certificate: set both"
    if user.username and (user.token or user.token_file):
        return "the user has both a token and a username: keep one"
    if user.auth_provider is not None and user.exec is None:
        name = user.auth_provider.get("name", "?")
        return f"the user's auth-provider {name!r} is not supported (kubectl has removed most): use an exec plugin"
    if user.act_as:
        return "impersonation (as) is not supported: use that user's credentials"
    return ""

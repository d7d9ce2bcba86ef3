"""Decides when a proof of who we are is read or issued again; leaves where to find it to credentials.

fresh ──(a minute on, or refused)──▶ read the files again ──(readable)──▶ fresh
                                                          └─(not)──▶ the last good one stays, with a warning
fresh ──(about to expire, or refused)──▶ run the plugin again ──(it fails)──▶ no proof, so nothing is sent
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from trimtab.kube.credentials import exec_plugin, tls
from trimtab.kube.credentials.kubeconfig import Cluster, CredentialsError, Exec, User

log = logging.getLogger(__name__)
REREAD_INTERVAL = 60.0
UNAUTHORIZED_INTERVAL = 5.0
EXPIRY_MARGIN = 10.0


class AuthState(NamedTuple):
    """What proves who we are. A changed certificate means a new context, so that no pooled connection shows the old."""

    headers: Mapping[str, str]
    context: ssl.SSLContext | None


class CredentialSource(Protocol):
    """Who we are by now; `refused` says that the server did not believe the last answer."""

    async def auth_state(self, now: float, unauthorized: bool) -> AuthState: ...


class FileCredentials:
    """Tokens, passwords and certificates that stand in a kubeconfig or in files that it names."""

    def __init__(self, cluster: Cluster, user: User, now: float) -> None:
        self._cluster, self._user = cluster, user
        self._read_at = now
        self._material: tls.TlsMaterial | None = None
        self._auth_state = self._read()

    async def auth_state(self, now: float, unauthorized: bool) -> AuthState:
        """The last good one, after another look at the files where one is due."""
        if now >= self._read_at + (UNAUTHORIZED_INTERVAL if unauthorized else REREAD_INTERVAL):
            self._read_at = now
            try:
                self._auth_state = self._read()
            except CredentialsError as error:
                log.warning("credentials not read again, the old ones stay: problem=%s", error)
        return self._auth_state

    def _read(self) -> AuthState:
        user, headers = self._user, _authorization(self._user)
        if not self._cluster.secure:
            return AuthState(headers, None)
        material = _server_trust(self._cluster)._replace(
            certificate=_bytes(user.client_certificate, user.client_certificate_data, "client certificate"),
            key=_bytes(user.client_key, user.client_key_data, "client key"),
        )
        if material == self._material:
            return AuthState(headers, self._auth_state.context)
        identity = AuthState(headers, tls.client_context(material))
        self._material = material
        return identity


class ExecCredentials:
    """A token or certificate that a program issues for a while."""

    def __init__(self, plugin: Exec, cluster: Cluster) -> None:
        exec_plugin.validate(plugin)
        self._plugin, self._cluster, self._material = plugin, cluster, _server_trust(cluster)
        self._auth_state: AuthState | None = None
        self._issued_at, self._expires = 0.0, float("inf")
        self._running: asyncio.Task[AuthState] | None = None

    async def auth_state(self, now: float, unauthorized: bool) -> AuthState:
        """The one issued last, or a new one; many may ask at once, and one run serves them all, the impatient too."""
        if self._running is None and self._auth_state is not None and not self._is_due(now, unauthorized):
            return self._auth_state
        if self._running is None:
            self._running = asyncio.create_task(self._issue(now))
            self._running.add_done_callback(self._issued)
        return await asyncio.shield(self._running)

    def _is_due(self, now: float, unauthorized: bool) -> bool:
        return now >= self._expires or (unauthorized and now >= self._issued_at + UNAUTHORIZED_INTERVAL)

    def _issued(self, run: asyncio.Task[AuthState]) -> None:
        self._running = None
        if not run.cancelled() and run.exception() is None:
            self._auth_state = run.result()

    async def _issue(self, now: float) -> AuthState:
        issued = await exec_plugin.run_plugin(self._plugin, self._cluster)
        headers = _bearer(issued.token)
        self._issued_at = now
        self._expires = float("inf") if issued.expires is None else issued.expires - EXPIRY_MARGIN
        if not self._cluster.secure:
            return AuthState(headers, None)
        material = self._material._replace(certificate=issued.certificate, key=issued.key)
        return AuthState(headers, tls.client_context(material))


def _server_trust(cluster: Cluster) -> tls.TlsMaterial:
    authority = _bytes(cluster.certificate_authority, cluster.certificate_authority_data, "certificate authority")
    return tls.TlsMaterial(ca=authority, verify=not cluster.insecure_skip_tls_verify)


def _bytes(path: str, data: str, what: str) -> bytes:
    """The bytes given in place, or else those of the file; nothing where neither is named."""
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error:
            raise CredentialsError(f"the data of the {what} in the kubeconfig is not base64: write it again") from None
    return _read_file(path, what) if path else b""


def _read_file(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CredentialsError(
            f"the {what} cannot be read from {path}: {error.strerror}; check path and rights"
        ) from None


def _authorization(user: User) -> Mapping[str, str]:
    """A token file wins over a token, as in kubectl."""
    token = user.token
    if user.token_file:
        token = _read_file(user.token_file, "token").decode("ascii", "replace").strip()
        if not token:
            raise CredentialsError(f"the token file {user.token_file} is empty: check what writes it")
    if token:
        return _bearer(token)
    if user.username:
        pair = base64.b64encode(f"{user.username}:{user.password}".encode())
        return {"Authorization": f"Basic {pair.decode()}"}
    return {}


def _bearer(token: str) -> Mapping[str, str]:
    """A token comes from outside and goes into a header, where a line break would begin another one."""
    if not (token.isascii() and token.isprintable()):
        raise CredentialsError(
            "the token holds line breaks, control characters or letters beyond ASCII: write it again"
        )
    return {"Authorization": f"Bearer {token}"} if token else {}

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
from typing import Protocol

from trimtab.kube import exec_plugin, tls
from trimtab.kube.kubeconfig import Cluster, CredentialsError, Exec, User

log = logging.getLogger(__name__)
REREAD_EVERY = 60.0
REFUSED_EVERY = 5.0
EXPIRY_MARGIN = 10.0


class Proof(Protocol):
    """Headers that prove who we are; `refused` says that the server did not believe the last ones."""

    async def headers(self, now: float, refused: bool) -> Mapping[str, str]: ...


class FileProof:
    """Tokens, passwords and certificates that stand in a kubeconfig or in files that it names."""

    def __init__(self, cluster: Cluster, user: User, context: ssl.SSLContext | None, now: float) -> None:
        self._cluster, self._user, self._context = cluster, user, context
        self._read_at = now
        self._headers = self._read()

    async def headers(self, now: float, refused: bool) -> Mapping[str, str]:
        """The last good ones, after another look at the files where one is due."""
        if now >= self._read_at + (REFUSED_EVERY if refused else REREAD_EVERY):
            self._read_at = now
            try:
                self._headers = self._read()
            except CredentialsError as error:
                log.warning("credentials not read again, the old ones stay: problem=%s", error)
        return self._headers

    def _read(self) -> Mapping[str, str]:
        cluster, user = self._cluster, self._user
        if self._context is not None:
            if authority := material(cluster.certificate_authority, cluster.certificate_authority_data, "authority"):
                tls.trust(self._context, authority)
            if certificate := material(user.client_certificate, user.client_certificate_data, "client certificate"):
                key = material(user.client_key, user.client_key_data, "client key")
                tls.present(self._context, certificate, key)
        return _authorization(user)


class PluginProof:
    """A token or certificate that a program issues for a while."""

    def __init__(self, plugin: Exec, cluster: Cluster, context: ssl.SSLContext | None) -> None:
        exec_plugin.check(plugin)
        self._plugin, self._cluster, self._context = plugin, cluster, context
        self._headers: Mapping[str, str] | None = None
        self._issued_at, self._expires = 0.0, float("inf")
        self._running = asyncio.Lock()

    async def headers(self, now: float, refused: bool) -> Mapping[str, str]:
        """Those issued last, or new ones; many may ask at once, one run serves them all."""
        async with self._running:
            if self._headers is None or now >= self._expires or (refused and now >= self._issued_at + REFUSED_EVERY):
                self._headers = await self._issue(now)
            return self._headers

    async def _issue(self, now: float) -> Mapping[str, str]:
        issued = await exec_plugin.issue(self._plugin, self._cluster)
        if issued.certificate and self._context is not None:
            tls.present(self._context, issued.certificate, issued.key)
        self._issued_at = now
        self._expires = float("inf") if issued.expires is None else issued.expires - EXPIRY_MARGIN
        return {"Authorization": f"Bearer {issued.token}"} if issued.token else {}


def material(path: str, data: str, what: str) -> bytes:
    """The bytes given in place, or else those of the file; nothing where neither is named."""
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error:
            raise CredentialsError(f"the data of the {what} in the kubeconfig is not base64: write it again") from None
    return _content(path, what) if path else b""


def _content(path: str, what: str) -> bytes:
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
        token = _content(user.token_file, "token").decode("ascii", "replace").strip()
        if not token:
            raise CredentialsError(f"the token file {user.token_file} is empty: check what writes it")
    if not token.isprintable():
        raise CredentialsError("the token holds line breaks or control characters: write it again")
    if token:
        return {"Authorization": f"Bearer {token}"}
    if user.username:
        pair = base64.b64encode(f"{user.username}:{user.password}".encode())
        return {"Authorization": f"Basic {pair.decode()}"}
    return {}

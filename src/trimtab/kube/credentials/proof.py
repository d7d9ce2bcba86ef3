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
REREAD_EVERY = 60.0
REFUSED_EVERY = 5.0
EXPIRY_MARGIN = 10.0


class Identity(NamedTuple):
    """What proves who we are. A changed certificate means a new context, so that no pooled connection shows the old."""

    headers: Mapping[str, str]
    context: ssl.SSLContext | None


class Proof(Protocol):
    """Who we are by now; `refused` says that the server did not believe the last answer."""

    async def identity(self, now: float, refused: bool) -> Identity: ...


class FileProof:
    """Tokens, passwords and certificates that stand in a kubeconfig or in files that it names."""

    def __init__(self, cluster: Cluster, user: User, now: float) -> None:
        self._cluster, self._user = cluster, user
        self._read_at = now
        self._material: tls.Material | None = None
        self._identity = self._read()

    async def identity(self, now: float, refused: bool) -> Identity:
        """The last good one, after another look at the files where one is due."""
        if now >= self._read_at + (REFUSED_EVERY if refused else REREAD_EVERY):
            self._read_at = now
            try:
                self._identity = self._read()
            except CredentialsError as error:
                log.warning("credentials not read again, the old ones stay: problem=%s", error)
        return self._identity

    def _read(self) -> Identity:
        user, headers = self._user, _authorization(self._user)
        if not self._cluster.secure:
            return Identity(headers, None)
        material = _trusted(self._cluster)._replace(
            certificate=_bytes(user.client_certificate, user.client_certificate_data, "client certificate"),
            key=_bytes(user.client_key, user.client_key_data, "client key"),
        )
        if material == self._material:
            return Identity(headers, self._identity.context)
        identity = Identity(headers, tls.client_context(material))
        self._material = material
        return identity


class PluginProof:
    """A token or certificate that a program issues for a while."""

    def __init__(self, plugin: Exec, cluster: Cluster) -> None:
        exec_plugin.check(plugin)
        self._plugin, self._cluster, self._material = plugin, cluster, _trusted(cluster)
        self._identity: Identity | None = None
        self._issued_at, self._expires = 0.0, float("inf")
        self._running: asyncio.Task[Identity] | None = None

    async def identity(self, now: float, refused: bool) -> Identity:
        """The one issued last, or a new one; many may ask at once, and one run serves them all, the impatient too."""
        if self._running is None and self._identity is not None and not self._is_due(now, refused):
            return self._identity
        if self._running is None:
            self._running = asyncio.create_task(self._issue(now))
            self._running.add_done_callback(self._issued)
        return await asyncio.shield(self._running)

    def _is_due(self, now: float, refused: bool) -> bool:
        return now >= self._expires or (refused and now >= self._issued_at + REFUSED_EVERY)

    def _issued(self, run: asyncio.Task[Identity]) -> None:
        self._running = None
        if not run.cancelled() and run.exception() is None:
            self._identity = run.result()

    async def _issue(self, now: float) -> Identity:
        issued = await exec_plugin.issue(self._plugin, self._cluster)
        headers = _bearer(issued.token)
        self._issued_at = now
        self._expires = float("inf") if issued.expires is None else issued.expires - EXPIRY_MARGIN
        if not self._cluster.secure:
            return Identity(headers, None)
        material = self._material._replace(certificate=issued.certificate, key=issued.key)
        return Identity(headers, tls.client_context(material))


def _trusted(cluster: Cluster) -> tls.Material:
    authority = _bytes(cluster.certificate_authority, cluster.certificate_authority_data, "certificate authority")
    return tls.Material(authority=authority, verify=not cluster.insecure_skip_tls_verify)


def _bytes(path: str, data: str, what: str) -> bytes:
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

"""Authentication headers and TLS contexts that are read or issued again when they get old.

files: fresh ──(a minute later, or after any 401)──▶ read again ──(ok)──▶ fresh
                                                            └─(fails)──▶ the last good ones stay, with a warning
exec:  fresh ──(about to expire, or after a 401)──▶ run the plugin again ──(fails)──▶ nothing is sent

All times are of a clock that never jumps; when a plugin names a time of expiry, the wall clock says only how long that is.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from trimtab.kube.credentials import exec_plugin
from trimtab.kube.credentials.kubeconfig import ClusterConfig, CredentialsError, Exec, UserConfig

log = logging.getLogger(__name__)
REREAD_INTERVAL = 60.0
UNAUTHORIZED_INTERVAL = 5.0  # between two runs of a plugin
EXPIRY_MARGIN = 10.0


class TlsMaterial(NamedTuple):
    """What a TLS connection needs, as PEM; an empty CA means those that the system trusts."""

    ca: bytes = b""
    certificate: bytes = b""
    key: bytes = b""
    verify: bool = True


class AuthState(NamedTuple):
    """How a request is authenticated. A new certificate is a new context, so that no pooled connection uses the old one."""

    headers: Mapping[str, str]
    context: ssl.SSLContext | None
    material: TlsMaterial | None = None  # what the context was made of


class CredentialSource(Protocol):
    """Gives the current AuthState; `unauthorized` says that the server answered the last one with a 401."""

    async def auth_state(self, now: float, unauthorized: bool) -> AuthState: ...


class FileCredentials:
    """Tokens, passwords and certificates from a kubeconfig or the files it names."""

    def __init__(self, cluster: ClusterConfig, user: UserConfig, now: float) -> None:
        self._cluster, self._user = cluster, user
        self._read_at = now
        self._material: TlsMaterial | None = None
        self._auth_state = self._read()

    async def auth_state(self, now: float, unauthorized: bool) -> AuthState:
        """The last good state, after reading the files again if that is due."""
        if unauthorized or now >= self._read_at + REREAD_INTERVAL:
            self._read_at = now
            try:
                self._auth_state = self._read()
            except CredentialsError as error:
                log.warning("failed to reload credentials, keeping the old ones: error=%s", error)
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
            return AuthState(headers, self._auth_state.context, material)
        auth_state = AuthState(headers, client_context(material), material)
        self._material = material
        return auth_state


class ExecCredentials:
    """A token or certificate issued by an exec plugin."""

    def __init__(self, plugin: Exec, cluster: ClusterConfig, wall: Callable[[], float] = time.time) -> None:
        exec_plugin.validate(plugin)
        self._plugin, self._cluster, self._material = plugin, cluster, _server_trust(cluster)
        self._wall = wall
        self._auth_state: AuthState | None = None
        self._issued_at, self._expires = 0.0, float("inf")
        self._running: asyncio.Task[AuthState] | None = None

    async def auth_state(self, now: float, unauthorized: bool) -> AuthState:
        """The state issued last, or a new one; one run of the plugin serves all callers, also those that time out."""
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
        headers = bearer_header(issued.token)
        self._issued_at = now
        lifetime = float("inf") if issued.expires is None else issued.expires - self._wall()
        self._expires = now + lifetime - EXPIRY_MARGIN
        if not self._cluster.secure:
            return AuthState(headers, None)
        material = self._material._replace(certificate=issued.certificate, key=issued.key)
        return AuthState(headers, client_context(material), material)


def _server_trust(cluster: ClusterConfig) -> TlsMaterial:
    ca = _bytes(cluster.certificate_authority, cluster.certificate_authority_data, "certificate authority")
    return TlsMaterial(ca=ca, verify=not cluster.insecure_skip_tls_verify)


def _bytes(path: str, data: str, what: str) -> bytes:
    """The inline data, else the content of the file, else nothing."""
    if data:
        try:
            return base64.b64decode(data, validate=True)
        except binascii.Error:
            raise CredentialsError(f"the {what} data in the kubeconfig is not valid base64: encode it again") from None
    return _read_file(path, what) if path else b""


def _read_file(path: str, what: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise CredentialsError(
            f"the {what} cannot be read from {path}: {error.strerror}; check path and rights"
        ) from None


def _authorization(user: UserConfig) -> Mapping[str, str]:
    """A token file takes precedence over a token, as in kubectl."""
    token = user.token
    if user.token_file:
        token = _read_file(user.token_file, "token").decode("ascii", "replace").strip()
        if not token:
            raise CredentialsError(f"the token file {user.token_file} is empty: check what writes it")
    if token:
        return bearer_header(token)
    if user.username:
        pair = base64.b64encode(f"{user.username}:{user.password}".encode())
        return {"Authorization": f"Basic {pair.decode()}"}
    return {}


def bearer_header(token: str) -> Mapping[str, str]:
    """The token becomes a header, so it must not contain line breaks."""
    if not (token.isascii() and token.isprintable()):
        raise CredentialsError(
            "the token contains line breaks, control characters or non-ASCII characters: write it again"
        )
    return {"Authorization": f"Bearer {token}"} if token else {}


def client_context(material: TlsMaterial) -> ssl.SSLContext:
    """A context that trusts only this CA and presents this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if not material.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif material.ca:
        _trust(context, material.ca)
    else:
        context.load_default_certs()
    if material.certificate:
        _present(context, material.certificate, material.key)
    return context


def _trust(context: ssl.SSLContext, ca: bytes) -> None:
    try:
        context.load_verify_locations(cadata=ca.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError) as error:
        raise CredentialsError(f"the certificate authority is not a PEM certificate: {_reason(error)}") from None


def _present(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    try:
        load_key_pair(context, certificate, key)
    except (ssl.SSLError, ValueError) as error:
        reason = _reason(error)
        raise CredentialsError(f"the client certificate and its key cannot be used together: {reason}") from None


def load_key_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Present this certificate, given with its key as PEM; raises SSLError or ValueError if they do not fit."""
    with _file(certificate.rstrip(b"\n") + b"\n" + key) as path:
        context.load_cert_chain(path, password="")


def _reason(error: Exception) -> str:
    return str(getattr(error, "reason", None) or error)


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A path to the content, in memory where the system allows it: ssl reads keys only from files."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name
        return
    descriptor = os.memfd_create("key", os.MFD_CLOEXEC)
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)

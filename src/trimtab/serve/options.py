"""What a process serves, where, and to whom: the values of the serving flags, with kube-scheduler's names and defaults."""

from __future__ import annotations

from dataclasses import dataclass
from ssl import TLSVersion
from typing import NamedTuple

from trimtab.serve.tls_settings import TlsSettings

ALWAYS_ALLOW_PATHS = ("/healthz", "/readyz", "/livez")
SECURE_PORT = 10259
CACHE_SECONDS = 10.0
DEFAULT_TLS = TlsSettings(TLSVersion.TLSv1_2)


class Address(NamedTuple):
    """Where to listen, and the flag that says so; 0.0.0.0 and :: mean all interfaces."""

    host: str
    port: int
    flag: str

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True)
class CertificateOptions:
    """Files and TLS settings; without files the certificate is self-signed, in `cert_dir` or in memory."""

    cert_file: str = ""
    key_file: str = ""
    cert_dir: str = ""
    settings: TlsSettings = DEFAULT_TLS


@dataclass(frozen=True)
class AuthenticationOptions:
    """How callers prove who they are: by a token or a client certificate."""

    kubeconfig: str = ""  # empty for the credentials of the process
    client_ca_file: str = ""
    skip_lookup: bool = False
    tolerate_lookup_failure: bool = True
    cache_ttl: float = CACHE_SECONDS


class AlwaysAllowedPaths:
    """Paths that are served without asking who the caller is, as kube-scheduler takes them: whole ones, or with
    a `*` at the end that stands for any rest.
    """

    def __init__(self, paths: tuple[str, ...]) -> None:
        if wrong := [path for path in paths if "*" in path[:-1]]:
            raise ValueError(f"{wrong[0]!r} has a * that is not at its end, for example /healthz/*")
        bare = [path.removeprefix("/") for path in paths]
        self._exact = frozenset(path for path in bare if not path.endswith("*"))
        self._prefixes = tuple(path[:-1] for path in bare if path.endswith("*"))

    def __contains__(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._exact or bare.startswith(self._prefixes)


@dataclass(frozen=True)
class AuthorizationOptions:
    """What they may read."""

    kubeconfig: str = ""  # empty for the credentials of the process
    always_allow_paths: tuple[str, ...] = ALWAYS_ALLOW_PATHS
    authorized_ttl: float = CACHE_SECONDS
    unauthorized_ttl: float = CACHE_SECONDS


@dataclass(frozen=True)
class SecureServing:
    """HTTPS with delegated authentication and authorization."""

    address: Address
    certificate: CertificateOptions = CertificateOptions()
    authentication: AuthenticationOptions = AuthenticationOptions()
    authorization: AuthorizationOptions = AuthorizationOptions()
    permit_port_sharing: bool = False


@dataclass(frozen=True)
class Serving:
    """The ports of a process; None where it does not listen."""

    loopback: Address | None = None  # everything, in plain HTTP
    secure: SecureServing | None = None  # everything
    health: Address | None = None  # health checks alone, in plain HTTP
    status: Address | None = None  # health checks and the labeller's pages, in plain HTTP

"""TLS versions and cipher suites by the names that Kubernetes' flags use; nothing below TLS 1.2, and no weak suite."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from typing import NamedTuple

from trimtab.config.diagnostics import did_you_mean

MIN_VERSION = "VersionTLS12"
VERSIONS = {
    "VersionTLS10": ssl.TLSVersion.TLSv1_2,  # raised
    "VersionTLS11": ssl.TLSVersion.TLSv1_2,  # raised
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
_CIPHERS = {
    "AES_128_CBC_SHA": "AES128-SHA",
    "AES_128_GCM_SHA256": "AES128-GCM-SHA256",
    "AES_256_CBC_SHA": "AES256-SHA",
    "AES_256_GCM_SHA384": "AES256-GCM-SHA384",
    "CHACHA20_POLY1305": "CHACHA20-POLY1305",
    "CHACHA20_POLY1305_SHA256": "CHACHA20-POLY1305",
}
# Go's names, and OpenSSL's.
SUITES = {
    f"TLS_ECDHE_{key}_WITH_{name}": f"ECDHE-{key}-{cipher}"
    for key in ("ECDSA", "RSA")
    for name, cipher in _CIPHERS.items()
}
TLS13_SUITES = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")  # always enabled
INSECURE_SUITES = (
    *("TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    *("TLS_ECDHE_ECDSA_WITH_RC4_128_SHA", "TLS_ECDHE_RSA_WITH_RC4_128_SHA", "TLS_RSA_WITH_RC4_128_SHA"),
    *("TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
    *("TLS_RSA_WITH_AES_128_CBC_SHA", "TLS_RSA_WITH_AES_128_CBC_SHA256", "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    *("TLS_RSA_WITH_AES_256_CBC_SHA", "TLS_RSA_WITH_AES_256_GCM_SHA384"),
)


class TlsSettings(NamedTuple):
    """The lowest version, the suites of TLS 1.2 for OpenSSL (empty for its defaults), and the weak names left out."""

    version: ssl.TLSVersion
    ciphers: str = ""
    weak: tuple[str, ...] = ()

    def apply(self, context: ssl.SSLContext) -> None:
        """Let a context use them."""
        context.minimum_version = self.version
        if self.ciphers:
            context.set_ciphers(self.ciphers)


def tls_settings(version: str, suites: Iterable[str]) -> TlsSettings:
    """What these names mean; raises ValueError for an unknown one, or if no suite is left."""
    if version not in VERSIONS:
        raise ValueError(f"{version!r} is unknown: write VersionTLS12 or VersionTLS13")
    suites = tuple(suites)
    known = {*SUITES, *TLS13_SUITES, *INSECURE_SUITES}
    for name in suites:
        if name not in known:
            raise ValueError(
                f"{name!r} is unknown{did_you_mean(name, known)}: write Go's names, with commas between them"
            )
    weak = tuple(name for name in suites if name in INSECURE_SUITES)
    if suites and len(weak) == len(suites):
        raise ValueError(f"only weak cipher suites: {', '.join(weak)}; add one such as {TLS13_SUITES[0]}")
    ciphers = ":".join(dict.fromkeys(SUITES[name] for name in suites if name in SUITES))
    if suites and not ciphers:
        return TlsSettings(ssl.TLSVersion.TLSv1_3, "", weak)  # those of TLS 1.3 alone
    raised = (version,) if version in ("VersionTLS10", "VersionTLS11") else ()
    return TlsSettings(VERSIONS[version], ciphers, (*raised, *weak))

"""A self-signed certificate for the secure port, as kube-scheduler makes one when none is given."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = timedelta(days=365)
CLOCK_SKEW = timedelta(hours=1)
MAX_COMMON_NAME = 64


def self_signed(host: str, now: float) -> tuple[bytes, bytes]:
    """Certificate and key, as PEM, for this machine and the address that it listens on."""
    key = ec.generate_private_key(ec.SECP256R1())
    start = datetime.fromtimestamp(now, UTC)
    machine = socket.gethostname()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{machine}@{int(now)}"[-MAX_COMMON_NAME:])])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start - CLOCK_SKEW)
        .not_valid_after(start + LIFETIME)
        .add_extension(x509.SubjectAlternativeName([*_names(machine, host)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)  # a client may trust it as a CA
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return certificate.public_bytes(serialization.Encoding.PEM), private


def expiry(certificate: bytes) -> float:
    """When the first certificate of the PEM expires; ValueError if there is none."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()


def _names(machine: str, host: str) -> Iterable[x509.GeneralName]:
    yield from (x509.DNSName(name) for name in dict.fromkeys((machine, "localhost")) if name.isascii())
    addresses = ["127.0.0.1", "::1", *([] if ipaddress.ip_address(host).is_unspecified else [host])]
    yield from (x509.IPAddress(ipaddress.ip_address(each)) for each in dict.fromkeys(addresses))

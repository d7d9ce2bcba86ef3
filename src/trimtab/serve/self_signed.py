"""A self-signed certificate for the secure port, as kube-scheduler makes one when none is given."""

from __future__ import annotations

import ipaddress
import re
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
OWN_NAME = re.compile(r"@\d+$")


def new_key() -> bytes:
    """A private key, as PEM."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def self_signed(host: str, now: float, private: bytes) -> bytes:
    """A certificate, as PEM, with this key, for this machine and the address that it listens on."""
    key = serialization.load_pem_private_key(private, None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an elliptic-curve key")
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
    return certificate.public_bytes(serialization.Encoding.PEM)


def is_own(certificate: bytes) -> bool:
    """Whether `self_signed` made it: it is its own issuer, and is named after a machine and a time."""
    try:
        found = x509.load_pem_x509_certificate(certificate)
    except ValueError:
        return False
    names = found.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return found.issuer == found.subject and any(OWN_NAME.search(str(each.value)) for each in names)


def expiry(certificate: bytes) -> float:
    """When the first certificate of the PEM expires; ValueError if there is none."""
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()


def _names(machine: str, host: str) -> Iterable[x509.GeneralName]:
    yield from (x509.DNSName(name) for name in dict.fromkeys((machine, "localhost")) if name.isascii())
    addresses = ["127.0.0.1", "::1", *([] if ipaddress.ip_address(host).is_unspecified else [host])]
    yield from (x509.IPAddress(ipaddress.ip_address(each)) for each in dict.fromkeys(addresses))

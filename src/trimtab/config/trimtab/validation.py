"""Validates the URLs, networks, file paths and names in a `TrimtabConfiguration`.

The scheduler sends its credentials to whatever URL is configured. So only plain http and https are accepted, without
passwords, without spellings that parsers disagree about, and without the addresses where clouds serve the credentials of
a machine. A source checks `blocked_reason` again for the addresses that a name resolves to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

MAX_LENGTH = 2000
MAX_PATH_LENGTH = 4096
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<more>.*)", re.I | re.S)
_PATH = re.compile(r"[-A-Za-z0-9._~!$&'()*+,;=:@%/]*")
_DNS_LABEL = re.compile(r"[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?", re.I)
_NUMERIC = re.compile(r"[0-9]+|0x[0-9a-f]*", re.I)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9._]{0,61}[a-z0-9])?", re.I)
_LABEL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")

# Where clouds serve the credentials of a machine.
_METADATA = ("169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128")
_METADATA_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
_NAT64 = IPv6Network("64:ff9b::/96")

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class UrlParts:
    """The parts of a URL."""

    scheme: str
    host: str
    port: str
    path: str


def validate_url(text: str, allowed: Iterable[str] = ()) -> str | None:
    """Why this cannot be the URL of a source, as the rest of a sentence with the remedy."""
    parts = _split(text)
    if isinstance(parts, str):
        return parts
    if parts.port and not 1 <= int(parts.port) <= 65535:
        return f"has the port {parts.port}: write one between 1 and 65535"
    if not _PATH.fullmatch(parts.path) or ".." in parts.path.split("/"):
        return "has an invalid path: use letters, digits and '/', without '..'"
    return validate_host(parts.host, allowed)


def _split(text: str) -> UrlParts | str:
    if len(text) > MAX_LENGTH or any(not each.isprintable() or each in ' \\<>"' for each in text):
        return "is not a URL: write http://host:port, without spaces, backslashes or quotes"
    found = _URL.fullmatch(text)
    if found is None:
        return "is not a URL: write http://host:port or https://host:port"
    if found["scheme"].lower() not in ("http", "https"):
        return "has an unsupported scheme: write http:// or https://"
    if "@" in found["authority"]:
        return "contains a username or password: use basicAuth with a passwordFile, or bearerTokenFile"
    if found["more"]:
        return "does not end with the path: remove everything from '?' or '#' on"
    split = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?", found["authority"])
    if split is None or not split[1]:
        return "is not a URL: write http://host:port (an IPv6 address in brackets)"
    return UrlParts(found["scheme"].lower(), split[1], split[2] or "", found["path"])


def validate_host(host: str, allowed: Iterable[str] = ()) -> str | None:
    """The same for the host alone."""
    bare = host[1:-1] if host.startswith("[") else host
    if "%" in bare:
        return "has a zone (%), which differs from machine to machine: write the address without it"
    try:
        address = ip_address(bare)
    except ValueError:
        address = None
    if address is not None and isinstance(address, IPv6Address) is host.startswith("["):
        return blocked_reason(address, allowed)
    return _validate_name(host.removesuffix("."))


def _validate_name(name: str) -> str | None:
    labels = name.split(".")
    if not name.isascii() or any(label.lower().startswith("xn--") for label in labels):
        return "has an internationalised host name: write one in plain ASCII, or an IP address"
    if not all(_DNS_LABEL.fullmatch(label) for label in labels) or len(name) > 253:
        return "has an invalid host name: use letters, digits, '-' and '.'"
    if _NUMERIC.fullmatch(labels[-1]):
        return "has a host that some parsers take for a number: write an IPv4 address as four decimal numbers"
    if name.lower() in _METADATA_NAMES:
        return "is a cloud's metadata service, which serves credentials: choose another"
    return None


def blocked_reason(address: Address, allowed: Iterable[str] = ()) -> str | None:
    """Why this address may not be queried, unless it is in one of the `allowed` networks."""
    plain = _unwrap_ipv4(address)
    why = next((reason for reason, matches in _BLOCKED if matches(plain)), None)
    if why is None or any(plain in network for network in map(ip_network, allowed) if network.version == plain.version):
        return None
    return f"leads to {address}, {why}: choose another, or list it in allowAddresses if it is intended"


def _unwrap_ipv4(address: Address) -> Address:
    """The IPv4 address that an IPv6 address wraps, if it does."""
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address.sixtofour is not None:
            return address.sixtofour
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


_METADATA_NETWORKS = tuple(map(ip_network, _METADATA))
_BLOCKED = (
    (
        "a cloud's metadata service, which serves credentials",
        lambda address: any(address in network for network in _METADATA_NETWORKS),
    ),
    ("a link-local address", lambda address: address.is_link_local),
    ("a multicast address", lambda address: address.is_multicast),
    ("not the address of a host", lambda address: address.is_unspecified or address == IPv4Address("255.255.255.255")),
)


def redact_url(url: str) -> str:
    """A URL as a message may show it: one that may contain a password or token not at all."""
    return "the URL" if any(each in url for each in "@?#") else repr(url[:100])


def normalise_url(url: str) -> str:
    """The spelling by which two URLs are compared."""
    parts = _split(url)
    if isinstance(parts, str):
        return url
    port = parts.port or {"http": "80", "https": "443"}[parts.scheme]
    return f"{parts.scheme}://{parts.host.lower()}:{int(port)}{parts.path.rstrip('/')}"


def validate_network(text: str) -> str | None:
    """Why this cannot be an item of allowAddresses."""
    try:
        ip_network(text)
    except ValueError:
        return f"{text[:60]!r} is neither an IP address nor a network such as 169.254.10.0/24"
    return None


def validate_path(path: str) -> str | None:
    """Why this cannot be the path of a file."""
    if not path or not path.isprintable() or len(path) > MAX_PATH_LENGTH:
        return "is not the path of a file: write one such as /etc/trimtab/token"
    return f"{path[:100]!r} contains '..': write the path without it" if ".." in path.split("/") else None


def validate_name(name: str) -> str | None:
    """Why a source, a rule or a metric cannot have this name."""
    valid = _NAME.fullmatch(name) is not None
    return None if valid else f"{name[:100]!r} is not a valid name: use up to 63 letters, digits, '-', '_' and '.'"


def validate_label_name(name: str) -> str | None:
    """Why this cannot be the name of a Prometheus label."""
    valid = _LABEL_NAME.fullmatch(name) is not None
    return None if valid else f"{name[:100]!r} is not a valid label name: use letters, digits and '_'"

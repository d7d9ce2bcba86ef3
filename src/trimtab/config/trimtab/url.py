"""Decides which addresses a source may have, by name and by number; resolving names is left to the source.

Whoever can write an address here makes the scheduler knock there with its credentials. So only plain http and https
pass, no passwords, no spellings that readers disagree about, and none of the addresses behind which clouds keep the
credentials of a machine. The source asks `refused` once more about what a name resolves to.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

MAX_LENGTH = 2000
_URL = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<more>.*)", re.I | re.S)
_PATH = re.compile(r"[-A-Za-z0-9._~!$&'()*+,;=:@%/]*")
_LABEL = re.compile(r"[a-z0-9_]([-a-z0-9_]{0,61}[a-z0-9_])?", re.I)
_NUMBERED = re.compile(r"[0-9]+|0x[0-9a-f]*", re.I)

# Numbers under which clouds hand out a machine's credentials; names of the same.
_METADATA = ("169.254.0.0/16", "100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128")
_METADATA_NAMES = frozenset(
    {"metadata", "metadata.google.internal", "metadata.goog", "instance-data", "instance-data.ec2.internal"}
)
_NAT64 = IPv6Network("64:ff9b::/96")

Address = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class UrlParts:
    """An address taken apart."""

    scheme: str
    host: str
    port: str
    path: str


def validate_url(text: str, allowed: Iterable[str] = ()) -> str | None:
    """What keeps this from being the address of a source, as the rest of a sentence with the remedy."""
    parts = _split(text)
    if isinstance(parts, str):
        return parts
    if parts.port and not 1 <= int(parts.port) <= 65535:
        return f"has the port {parts.port}: write one between 1 and 65535"
    if not _PATH.fullmatch(parts.path) or ".." in parts.path.split("/"):
        return "has no plain path after the host: write letters, digits and '/', without '..'"
    return validate_host(parts.host, allowed)


def _split(text: str) -> UrlParts | str:
    if len(text) > MAX_LENGTH or any(not each.isprintable() or each in ' \\<>"' for each in text):
        return "is no address: write http://host:port, without spaces, backslashes or quotes"
    found = _URL.fullmatch(text)
    if found is None:
        return "is no address: write http://host:port or https://host:port"
    if found["scheme"].lower() not in ("http", "https"):
        return "has a scheme that is not spoken here: write http:// or https://"
    if "@" in found["authority"]:
        return "has a name or password in it: use basicAuth with a passwordFile, or bearerTokenFile"
    if found["more"]:
        return "does not end with the path: remove what stands after '?' or '#'"
    split = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(?::([0-9]{1,5}))?", found["authority"])
    if split is None or not split[1]:
        return "is no address: write http://host:port (an IPv6 address in brackets)"
    return UrlParts(found["scheme"].lower(), split[1], split[2] or "", found["path"])


def validate_host(host: str, allowed: Iterable[str] = ()) -> str | None:
    """The same of the host alone."""
    bare = host[1:-1] if host.startswith("[") else host
    if "%" in bare:
        return "has a zone (%), which means something else on every machine: write an address without"
    try:
        number = ip_address(bare)
    except ValueError:
        number = None
    if number is not None and isinstance(number, IPv6Address) is host.startswith("["):
        return blocked_reason(number, allowed)
    return _validate_name(host.removesuffix("."))


def _validate_name(name: str) -> str | None:
    labels = name.split(".")
    if not name.isascii() or any(label.lower().startswith("xn--") for label in labels):
        return "has a host name that does not read as it is spelt: write one in plain ASCII, or an IP address"
    if not all(_LABEL.fullmatch(label) for label in labels) or len(name) > 253:
        return "has no host name that a machine can have: write letters, digits, '-' and '.'"
    if _NUMBERED.fullmatch(labels[-1]):
        return "has a host that some read as a number: write an IPv4 address as four decimal numbers"
    if name.lower() in _METADATA_NAMES:
        return "is where a cloud keeps the credentials of its machines: choose another"
    return None


def blocked_reason(number: Address, allowed: Iterable[str] = ()) -> str | None:
    """Why nothing is asked at this address, unless one of the networks that are `allowed` holds it."""
    plain = _unwrap_ipv4(number)
    why = next((reason for reason, holds in _REASONS if holds(plain)), None)
    if why is None or any(plain in network for network in map(ip_network, allowed) if network.version == plain.version):
        return None
    return f"leads to {number}, {why}: choose another, or name it in allowAddresses if it is meant"


def _unwrap_ipv4(number: Address) -> Address:
    """The IPv4 address inside an IPv6 one that only wraps it."""
    if isinstance(number, IPv6Address):
        if number.ipv4_mapped is not None:
            return number.ipv4_mapped
        if number.sixtofour is not None:
            return number.sixtofour
        if number in _NAT64:
            return IPv4Address(int(number) & 0xFFFFFFFF)
    return number


_METADATA_NETWORKS = tuple(map(ip_network, _METADATA))
_REASONS = (
    (
        "where clouds keep the credentials of their machines",
        lambda number: any(number in network for network in _METADATA_NETWORKS),
    ),
    ("a link-local address", lambda number: number.is_link_local),
    ("a multicast address", lambda number: number.is_multicast),
    ("no address of any machine", lambda number: number.is_unspecified or number == IPv4Address("255.255.255.255")),
)


def redact_url(url: str) -> str:
    """An address as a message may show it: one with a password in it, or a token behind it, not at all."""
    return "the address" if any(each in url for each in "@?#") else repr(url[:100])


def validate_network(text: str) -> str | None:
    """What keeps this from being an item of allowAddresses."""
    try:
        ip_network(text)
    except ValueError:
        return f"{text[:60]!r} is neither an IP address nor a network such as 169.254.10.0/24"
    return None


def normalise_url(url: str) -> str:
    """An address in the spelling by which two are compared."""
    parts = _split(url)
    if isinstance(parts, str):
        return url
    port = parts.port or {"http": "80", "https": "443"}[parts.scheme]
    return f"{parts.scheme}://{parts.host.lower()}:{int(port)}{parts.path.rstrip('/')}"

"""Parses HOST:PORT of flags such as `--serve`; apart from the server, so that the command line need not import aiohttp."""

from __future__ import annotations

import ipaddress

DEFAULT_ADDRESS = "127.0.0.1:10261"


class InvalidAddress(ValueError):
    """Not an address to serve on; the message says why and gives an example."""


def parse_address(text: str, anywhere: bool = False) -> tuple[str, int]:
    """Host and port of "127.0.0.1:10261" or "[::1]:10261"; port 0 takes any free one.

    Loopback only, unless `anywhere`: then also ":9000", which is all interfaces.
    """
    host, colon, port = text.rpartition(":")
    name = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidAddress(f"{text!r} is not HOST:PORT, for example {DEFAULT_ADDRESS}")
    try:
        any_address = "0.0.0.0" if anywhere else ""  # noqa: S104 (only if the operator asks for it)
        address = ipaddress.ip_address({"localhost": "127.0.0.1", "": any_address}.get(name, name))
    except ValueError:
        raise InvalidAddress(f"{name!r} is not an IP address; example: {DEFAULT_ADDRESS}") from None
    if not address.is_loopback and not anywhere:
        raise InvalidAddress(
            f"{name} is not a loopback address, and these endpoints are unauthenticated: use 127.0.0.1, "
            "or --bind-address and --secure-port for HTTPS with authentication"
        )
    return str(address), int(port)

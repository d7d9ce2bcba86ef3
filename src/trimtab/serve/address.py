"""Parses the address of `--serve`; apart from `http.py`, so that the command line need not import aiohttp."""

from __future__ import annotations

import ipaddress

DEFAULT_ADDRESS = "127.0.0.1:10261"


class InvalidAddress(ValueError):
    """Not an address to serve on; the message says why and gives an example."""


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of "127.0.0.1:10261" or "[::1]:10261"; port 0 takes any free one. Loopback only."""
    host, colon, port = text.rpartition(":")
    name = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidAddress(f"{text!r} is not HOST:PORT, for example {DEFAULT_ADDRESS}")
    try:
        address = ipaddress.ip_address("127.0.0.1" if name == "localhost" else name)
    except ValueError:
        raise InvalidAddress(f"{name!r} is not an IP address; example: {DEFAULT_ADDRESS}") from None
    if not address.is_loopback:
        raise InvalidAddress(
            f"{name} is not a loopback address, and these endpoints are unauthenticated: use 127.0.0.1"
        )
    return str(address), int(port)

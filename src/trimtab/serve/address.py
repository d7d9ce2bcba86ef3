"""Decides which addresses pages may be served at: loopback only, for they ask nobody who he is; serving is left to `http`."""

from __future__ import annotations

import ipaddress

DEFAULT_ADDRESS = "127.0.0.1:10261"


class InvalidAddress(ValueError):
    """Not an address that can be served; the words say why and what would do."""


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of "127.0.0.1:10261" or "[::1]:10261"; port 0 takes any free one. Loopback only."""
    host, colon, port = text.rpartition(":")
    name = host.removeprefix("[").removesuffix("]")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise InvalidAddress(f"{text!r} is not HOST:PORT, as in {DEFAULT_ADDRESS}")
    try:
        address = ipaddress.ip_address("127.0.0.1" if name == "localhost" else name)
    except ValueError:
        raise InvalidAddress(f"{name!r} is not an IP address: write it as in {DEFAULT_ADDRESS}") from None
    if not address.is_loopback:
        raise InvalidAddress(
            f"{name} can be reached from elsewhere, and these pages ask nobody who he is: use 127.0.0.1"
        )
    return str(address), int(port)

"""`--serve` accepts loopback addresses only, and errors say why."""

import pytest

from trimtab.serve.address import InvalidAddress, parse_address


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:10261", ("127.0.0.1", 10261)), ("[::1]:0", ("::1", 0)), ("localhost:80", ("127.0.0.1", 80))],
)
def test_loopback_addresses_are_taken(text: str, address: tuple[str, int]) -> None:
    """Loopback in either family, by number or as localhost."""
    assert address == parse_address(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0.0.0.0:10261", "is not a loopback address"),
        ("[::]:10261", "is not a loopback address"),
        ("10.0.0.7:10261", "is not a loopback address"),
        ("example.com:80", "is not an IP address"),
        (":10261", "is not an IP address"),
        ("127.0.0.1", "is not HOST:PORT"),
        ("127.0.0.1:", "is not HOST:PORT"),
        ("127.0.0.1:70000", "is not HOST:PORT"),
        ("127.0.0.1:١٢", "is not HOST:PORT"),
    ],
)
def test_other_addresses_are_refused(text: str, words: str) -> None:
    """Invalid addresses, and those that are not loopback, are rejected with a message."""
    with pytest.raises(InvalidAddress, match=words):
        parse_address(text)

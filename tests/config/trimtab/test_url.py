"""Proves which addresses a source may have, and that no message shows a password."""

from ipaddress import ip_address

import pytest

from trimtab.config.trimtab.url import blocked_reason, normalise_url, redact_url, validate_network, validate_url

PRESENTABLE = [
    "http://10.96.0.102:9090",
    "https://prometheus.monitoring.svc:9090",
    "https://prometheus.example.com/prefix/",
    "http://localhost:9090",
    "http://[fd00::1]:9090",
    "http://node_1.internal.:80",
    "HTTPS://Prometheus",
]


@pytest.mark.parametrize("url", PRESENTABLE)
def test_usual_addresses(url: str) -> None:
    """Names and numbers of machines in and around a cluster may be asked."""
    assert validate_url(url) is None


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("http://me:secret@prometheus:9090", "has a name or password in it: use basicAuth with a passwordFile"),
        ("http://me@prometheus:9090", "has a name or password"),
        ("file:///etc/passwd", "has a scheme that is not spoken here: write http:// or https://"),
        ("gopher://prometheus:70", "has a scheme"),
        ("unix:///run/prometheus.sock", "has a scheme"),
        ("prometheus:9090", "is no address"),
        ("//prometheus:9090", "is no address"),
        ("", "is no address"),
        ("http://", "is no address"),
        ("http://:9090", "is no address"),
        ("http://prometheus:", "is no address"),
        ("http://prometheus:nine", "is no address"),
        ("http://fd00::1:9090", "is no address: write http://host:port (an IPv6 address in brackets)"),
        ("http://prometheus :9090", "is no address: write http://host:port, without spaces"),
        ("http://prometheus\\@evil", "is no address"),
        ("http://prometheus\n:9090", "is no address"),
        ("http://prometheus:0", "has the port 0"),
        ("http://prometheus:65536", "has the port 65536: write one between 1 and 65535"),
        ("http://prometheus/a/../b", "has no plain path"),
        ("http://prometheus/<b>", "is no address"),
        ("http://prometheus/api?query=up", "does not end with the path"),
        ("http://prometheus/#here", "does not end with the path"),
        ("http://169.254.169.254", "leads to 169.254.169.254, where clouds keep the credentials"),
        ("http://169.254.10.1:9090", "leads to 169.254.10.1, where clouds"),
        ("http://100.100.100.200", "where clouds"),
        ("http://[fd00:ec2::254]", "where clouds"),
        ("http://metadata.google.internal", "is where a cloud keeps the credentials"),
        ("http://Metadata.Google.Internal.", "is where a cloud"),
        ("http://[::ffff:169.254.169.254]", "where clouds"),
        ("http://[64:ff9b::a9fe:a9fe]", "where clouds"),
        ("http://[2002:a9fe:a9fe::]", "where clouds"),
        ("http://[fe80::1]", "leads to fe80::1, a link-local address"),
        ("http://[fe80::1%25eth0]:9090", "has a zone (%)"),
        ("http://[fe80::1%eth0]:9090", "has a zone (%)"),
        ("http://224.0.0.1", "a multicast address"),
        ("http://[ff02::1]", "a multicast address"),
        ("http://0.0.0.0:9090", "no address of any machine"),
        ("http://[::]:9090", "no address of any machine"),
        ("http://255.255.255.255", "no address of any machine"),
        ("http://2852039166", "has a host that some read as a number"),
        ("http://0xa9fea9fe", "has a host that some read as a number"),
        ("http://0251.0376.0251.0376", "has a host that some read as a number"),
        ("http://169.254.43518", "has a host that some read as a number"),
        ("http://1.2.3.4.", "has a host that some read as a number"),
        ("http://[1.2.3.4]", "has no host name"),
        ("http://-prometheus", "has no host name"),
        ("http://a..b", "has no host name"),
        ("http://prométheus", "has a host name that does not read as it is spelt"),
        ("http://xn--promtheus-d4a", "has a host name that does not read as it is spelt"),
        ("http://" + "a" * 2000, "is no address"),
    ],
)
def test_refused_addresses(url: str, fault: str) -> None:
    """What is no plain address of a machine, or leads to a machine's credentials, is refused with a remedy."""
    assert (validate_url(url) or "").startswith(fault) or fault in (validate_url(url) or "")


def test_passwords_are_not_told() -> None:
    """An address is told in messages, but never one that may hold a password."""
    assert "'http://prometheus'" == redact_url("http://prometheus")
    assert "the address" == redact_url("http://me:secret@prometheus")
    assert "the address" == redact_url("http://prometheus/?token=secret") == redact_url("http://prometheus/#secret")


def test_allowed_networks() -> None:
    """A network that is named is asked although its addresses are refused else, and no other one is."""
    allowed = ("169.254.10.0/24", "fe80::/64")
    assert validate_url("http://169.254.10.7:9090", allowed) is None
    assert validate_url("http://[::ffff:169.254.10.7]:9090", allowed) is None
    assert blocked_reason(ip_address("fe80::7"), allowed) is None
    assert blocked_reason(ip_address("169.254.169.254"), allowed) is not None


@pytest.mark.parametrize(
    ("text", "good"), [("10.0.0.1", True), ("fe80::/10", True), ("10.0.0.1/8", False), ("a", False)]
)
def test_networks(text: str, good: bool) -> None:
    """What is to be allowed is an address, or a network without bits beside its mask."""
    assert good is (validate_network(text) is None)


def test_same_place() -> None:
    """Two spellings of one address are the same place, and another port is another."""
    assert "http://a.b:80/x" == normalise_url("HTTP://A.b/x/") == normalise_url("http://a.b:080/x")
    assert normalise_url("http://a.b:81") != normalise_url("http://a.b")
    assert normalise_url("https://a.b:443") == normalise_url("https://a.b")

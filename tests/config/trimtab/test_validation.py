"""Which URLs a source may have, and that no message shows a password."""

from ipaddress import ip_address

import pytest

from trimtab.config.trimtab.validation import blocked_reason, normalise_url, redact_url, validate_network, validate_url

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
    """Host names and IP addresses in and around a cluster are accepted."""
    assert validate_url(url) is None


@pytest.mark.parametrize(
    ("url", "fault"),
    [
        ("http://me:secret@prometheus:9090", "contains a username or password: use basicAuth with a passwordFile"),
        ("http://me@prometheus:9090", "contains a username or password"),
        ("file:///etc/passwd", "has an unsupported scheme: write http:// or https://"),
        ("gopher://prometheus:70", "has an unsupported scheme"),
        ("unix:///run/prometheus.sock", "has an unsupported scheme"),
        ("prometheus:9090", "is not a URL"),
        ("//prometheus:9090", "is not a URL"),
        ("", "is not a URL"),
        ("http://", "is not a URL"),
        ("http://:9090", "is not a URL"),
        ("http://prometheus:", "is not a URL"),
        ("http://prometheus:nine", "is not a URL"),
        ("http://fd00::1:9090", "is not a URL: write http://host:port (an IPv6 address in brackets)"),
        ("http://prometheus :9090", "is not a URL: write http://host:port, without spaces"),
        ("http://prometheus\\@evil", "is not a URL"),
        ("http://prometheus\n:9090", "is not a URL"),
        ("http://prometheus:0", "has the port 0"),
        ("http://prometheus:65536", "has the port 65536: write one between 1 and 65535"),
        ("http://prometheus/a/../b", "has an invalid path"),
        ("http://prometheus/<b>", "is not a URL"),
        ("http://prometheus/api?query=up", "does not end with the path"),
        ("http://prometheus/#here", "does not end with the path"),
        ("http://169.254.169.254", "leads to 169.254.169.254, a cloud's metadata service"),
        ("http://169.254.10.1:9090", "leads to 169.254.10.1, a cloud's metadata service"),
        ("http://100.100.100.200", "a cloud's metadata service"),
        ("http://[fd00:ec2::254]", "a cloud's metadata service"),
        ("http://metadata.google.internal", "is a cloud's metadata service"),
        ("http://Metadata.Google.Internal.", "is a cloud's metadata service"),
        ("http://[::ffff:169.254.169.254]", "a cloud's metadata service"),
        ("http://[64:ff9b::a9fe:a9fe]", "a cloud's metadata service"),
        ("http://[2002:a9fe:a9fe::]", "a cloud's metadata service"),
        ("http://[fe80::1]", "leads to fe80::1, a link-local address"),
        ("http://[fe80::1%25eth0]:9090", "has a zone (%)"),
        ("http://[fe80::1%eth0]:9090", "has a zone (%)"),
        ("http://224.0.0.1", "a multicast address"),
        ("http://[ff02::1]", "a multicast address"),
        ("http://0.0.0.0:9090", "not the address of a host"),
        ("http://[::]:9090", "not the address of a host"),
        ("http://255.255.255.255", "not the address of a host"),
        ("http://2852039166", "has a host that some parsers take for a number"),
        ("http://0xa9fea9fe", "has a host that some parsers take for a number"),
        ("http://0251.0376.0251.0376", "has a host that some parsers take for a number"),
        ("http://169.254.43518", "has a host that some parsers take for a number"),
        ("http://1.2.3.4.", "has a host that some parsers take for a number"),
        ("http://[1.2.3.4]", "has an invalid host name"),
        ("http://-prometheus", "has an invalid host name"),
        ("http://a..b", "has an invalid host name"),
        ("http://prométheus", "has an internationalised host name"),
        ("http://xn--promtheus-d4a", "has an internationalised host name"),
        ("http://" + "a" * 2000, "is not a URL"),
    ],
)
def test_rejected_addresses(url: str, fault: str) -> None:
    """A URL that is malformed, or leads to a metadata service, is rejected with a remedy."""
    assert (validate_url(url) or "").startswith(fault) or fault in (validate_url(url) or "")


def test_passwords_are_not_told() -> None:
    """Messages show a URL, but never one that may contain a password."""
    assert "'http://prometheus'" == redact_url("http://prometheus")
    assert "the URL" == redact_url("http://me:secret@prometheus")
    assert "the URL" == redact_url("http://prometheus/?token=secret") == redact_url("http://prometheus/#secret")


def test_allowed_networks() -> None:
    """An allowed network may be queried although it would be blocked otherwise, and no other one."""
    allowed = ("169.254.10.0/24", "fe80::/64")
    assert validate_url("http://169.254.10.7:9090", allowed) is None
    assert validate_url("http://[::ffff:169.254.10.7]:9090", allowed) is None
    assert blocked_reason(ip_address("fe80::7"), allowed) is None
    assert blocked_reason(ip_address("169.254.169.254"), allowed) is not None


@pytest.mark.parametrize(
    ("text", "good"), [("10.0.0.1", True), ("fe80::/10", True), ("10.0.0.1/8", False), ("a", False)]
)
def test_networks(text: str, good: bool) -> None:
    """allowAddresses takes IP addresses, and networks without host bits."""
    assert good is (validate_network(text) is None)


def test_same_place() -> None:
    """Two spellings of one URL are equal, and another port is not."""
    assert "http://a.b:80/x" == normalise_url("HTTP://A.b/x/") == normalise_url("http://a.b:080/x")
    assert normalise_url("http://a.b:81") != normalise_url("http://a.b")
    assert normalise_url("https://a.b:443") == normalise_url("https://a.b")

"""The flags of the ports, shared by `run` and `labeller`: kube-scheduler's for the secure port, and ours for plain ones.

Without a flag the process serves on loopback, and in a cluster, where it has a service account, on the secure port instead.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import click

from trimtab.cli.flags import Boolean, Duration, Flag, Strings, strings
from trimtab.serve.address import InvalidAddress, parse_address
from trimtab.serve.options import (
    ALWAYS_ALLOW_PATHS,
    CACHE_SECONDS,
    SECURE_PORT,
    Address,
    AlwaysAllowedPaths,
    AuthenticationOptions,
    AuthorizationOptions,
    CertificateOptions,
    SecureServing,
    Serving,
)
from trimtab.serve.tls_settings import MIN_VERSION, VERSIONS, TlsSettings, tls_settings

Flags = Mapping[str, Any]

SECURE, AUTHENTICATION, AUTHORIZATION = "Secure serving flags", "Authentication flags", "Authorization flags"
ALL_INTERFACES = "0.0.0.0"  # noqa: S104 (only if the operator asks for it)
SERVE, HEALTH = "--serve", "--health-probe-bind-address"

SERVING_FLAGS = (
    Flag("", "health-probe-bind-address", click.STRING, "HOST:PORT of the health checks alone, in plain HTTP."),
    Flag(
        SECURE, "bind-address", click.STRING, f"IP address of the secure port; default {ALL_INTERFACES}, which is all."
    ),
    Flag(
        SECURE,
        "secure-port",
        click.IntRange(0, 65535),
        f"Port of HTTPS with authentication and authorization, 0 for none; default: {SECURE_PORT} in a cluster or with "
        "any flag of these three groups, else none.",
    ),
    Flag(SECURE, "tls-cert-file", click.STRING, "Certificate, then its intermediates; read again when it changes."),
    Flag(SECURE, "tls-private-key-file", click.STRING, "The certificate's key."),
    Flag(SECURE, "cert-dir", click.STRING, "Where a self-signed certificate is kept; default: in memory."),
    Flag(SECURE, "tls-min-version", click.STRING, "VersionTLS12 (default) or VersionTLS13."),
    Flag(SECURE, "tls-cipher-suites", Strings(), "Cipher suites of TLS 1.2, by their Go names."),
    Flag(SECURE, "permit-port-sharing", Boolean(), "Use SO_REUSEPORT."),
    Flag(
        AUTHENTICATION,
        "authentication-kubeconfig",
        click.STRING,
        "Credentials for TokenReviews; default: those of the process.",
    ),
    Flag(AUTHENTICATION, "authentication-skip-lookup", Boolean(), "Do not look up the cluster's client CA."),
    Flag(
        AUTHENTICATION,
        "authentication-token-webhook-cache-ttl",
        Duration(),
        f"How long TokenReviews are cached; default {CACHE_SECONDS:g}s.",
    ),
    Flag(
        AUTHENTICATION,
        "authentication-tolerate-lookup-failure",
        Boolean(),
        "Go on without the cluster's client CA if it cannot be looked up; default true.",
    ),
    Flag(AUTHENTICATION, "client-ca-file", click.STRING, "Authorities of client certificates."),
    Flag(
        AUTHORIZATION,
        "authorization-always-allow-paths",
        Strings(),
        f"Paths that need no right, also with * at the end; default {','.join(ALWAYS_ALLOW_PATHS)}.",
    ),
    Flag(
        AUTHORIZATION,
        "authorization-kubeconfig",
        click.STRING,
        "Credentials for SubjectAccessReviews; default: those of the process.",
    ),
    Flag(
        AUTHORIZATION,
        "authorization-webhook-cache-authorized-ttl",
        Duration(),
        f"How long a granted right is cached; default {CACHE_SECONDS:g}s.",
    ),
    Flag(
        AUTHORIZATION,
        "authorization-webhook-cache-unauthorized-ttl",
        Duration(),
        f"How long a missing right is cached; default {CACHE_SECONDS:g}s.",
    ),
)


@dataclass(frozen=True)
class ServingFlags:
    """What the flags say, before it is known whether the process runs in a cluster."""

    secure: SecureServing  # with port 0 if it is switched off
    asked_secure: bool
    loopback: Address | None
    default_loopback: Address
    health: Address | None = None
    status: Address | None = None

    def serving(self, in_cluster: bool) -> Serving:
        """The ports to open."""
        secure = self.secure if self.secure.address.port and (self.asked_secure or in_cluster) else None
        plain = self.loopback or self.status
        loopback = self.default_loopback if secure is None and plain is None else self.loopback
        return Serving(loopback, secure, self.health, self.status)


def read_serving_flags(flags: Flags, loopback: str, default_loopback: str) -> ServingFlags:
    """The values of the flags; raises BadParameter where one cannot be used. `loopback` is empty if it is not given."""
    health = flags["health_probe_bind_address"]
    return ServingFlags(
        _secure(flags),
        any(flags[each.parameter] not in (None, ()) for each in SERVING_FLAGS if each.group),
        address_of(loopback, SERVE) if loopback else None,
        address_of(default_loopback, SERVE),
        address_of(health, HEALTH, anywhere=True) if health else None,
    )


def address_of(text: str, flag: str, anywhere: bool = False) -> Address:
    """HOST:PORT of a flag."""
    try:
        return Address(*parse_address(text, anywhere), flag)
    except InvalidAddress as error:
        raise click.BadParameter(str(error), param_hint=flag) from None


def _secure(flags: Flags) -> SecureServing:
    port = SECURE_PORT if flags["secure_port"] is None else flags["secure_port"]
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    return SecureServing(
        Address(_ip(given.get("bind_address", ALL_INTERFACES)), port, "--secure-port"),
        _certificate(given),
        _authentication(given),
        _authorization(given),
        given.get("permit_port_sharing", False),
    )


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        remedy = f"give one of this machine's, or {ALL_INTERFACES} for all"
        raise click.BadParameter(f"{text!r} is not an IP address: {remedy}", param_hint="--bind-address") from None


def _certificate(given: Flags) -> CertificateOptions:
    return CertificateOptions(
        given.get("tls_cert_file", ""),
        given.get("tls_private_key_file", ""),
        given.get("cert_dir", ""),
        _tls_settings(given),
    )


def _tls_settings(given: Flags) -> TlsSettings:
    version = given.get("tls_min_version", MIN_VERSION)
    flag = "--tls-min-version" if version not in VERSIONS else "--tls-cipher-suites"
    try:
        return tls_settings(version, strings(given.get("tls_cipher_suites", ())))
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=flag) from None


def _authentication(given: Flags) -> AuthenticationOptions:
    return AuthenticationOptions(
        given.get("authentication_kubeconfig", ""),
        given.get("client_ca_file", ""),
        given.get("authentication_skip_lookup", False),
        given.get("authentication_tolerate_lookup_failure", True),
        given.get("authentication_token_webhook_cache_ttl", CACHE_SECONDS),
    )


def _authorization(given: Flags) -> AuthorizationOptions:
    return AuthorizationOptions(
        given.get("authorization_kubeconfig", ""),
        _allowed_paths(given),
        given.get("authorization_webhook_cache_authorized_ttl", CACHE_SECONDS),
        given.get("authorization_webhook_cache_unauthorized_ttl", CACHE_SECONDS),
    )


def _allowed_paths(given: Flags) -> tuple[str, ...]:
    paths = strings(given.get("authorization_always_allow_paths", ()), ALWAYS_ALLOW_PATHS)
    try:
        AlwaysAllowedPaths(paths)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--authorization-always-allow-paths") from None
    return paths

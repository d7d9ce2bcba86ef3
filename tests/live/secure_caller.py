"""Calls the secure port of a process as its users do: with a token, a client certificate, or nothing."""

from __future__ import annotations

import ssl
from http.client import HTTPSConnection
from typing import NamedTuple

from tools.controlplane.process import Process


class Answer(NamedTuple):
    """The status, text and content type of a response."""

    status: int
    text: str
    content_type: str


def untrusting() -> ssl.SSLContext:
    """A client that accepts any certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def call(
    process: Process,
    path: str,
    token: str = "",
    context: ssl.SSLContext | None = None,
    method: str = "GET",
    source: str = "",
    **headers: str,
) -> Answer:
    """One request on a connection of its own, from this address; underscores in header names become dashes."""
    host, port = process.url.removeprefix("https://").split(":")
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    if token:
        sent["Authorization"] = f"Bearer {token}"
    bound = (source, 0) if source else None
    connection = HTTPSConnection(host, int(port), timeout=15, context=context or untrusting(), source_address=bound)
    try:
        connection.request(method, path, headers=sent)
        response = connection.getresponse()
        return Answer(response.status, response.read().decode(), response.headers["Content-Type"])
    finally:
        connection.close()

"""Reads a JSON page of a live process: in plain HTTP on loopback, or from its secure port with a token or certificate."""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import SplitResult, urlsplit

TIMEOUT = 10.0
OK, UNAUTHORIZED, FORBIDDEN = 200, 401, 403
UNEXPECTED = "it may be another program, or another version"
PORT_FORWARD = "kubectl port-forward -n trimtab deploy/trimtab 10259"
FORWARDED = "--server https://127.0.0.1:10259 --insecure-skip-tls-verify"
GRANT = "kubectl create clusterrole trimtab-{page} --verb=get --non-resource-url='/{page}/*', and bind it to that user"

Json = dict[str, Any]


class PageError(Exception):
    """Why there is no page, and what to do; without a full stop."""


class BadInput(PageError):
    """A flag, or a file that one names, cannot be used."""


@dataclass(frozen=True)
class Caller:
    """How to prove who we are, as the flags say."""

    token: str = ""
    token_file: str = ""
    kubeconfig: str = ""
    authority: str = ""
    insecure: bool = False


class _Connection(NamedTuple):
    context: ssl.SSLContext
    headers: Mapping[str, str]


def fetch(address: str, target: str, caller: Caller) -> Json:
    """The answer of a page, which may itself be a `problem`; raises PageError."""
    parts = _parse_address(address)
    if parts is None or parts.scheme not in ("http", "https") or not parts.netloc or parts.path.strip("/"):
        raise PageError(f"{address!r} is no address: set --address to HOST:PORT or https://HOST:PORT")
    secure = _secure(caller) if parts.scheme == "https" else None
    status, content = _get(parts.netloc, target, secure)
    return _parse(status, content, GRANT.format(page=target.split("/")[1]))


def _parse_address(address: str) -> SplitResult | None:
    try:
        return urlsplit(address if "://" in address else f"http://{address}")
    except ValueError:  # such as an unclosed bracket
        return None


def _get(place: str, target: str, secure: _Connection | None) -> tuple[int, bytes]:
    try:
        # Not by urllib: a proxy from the environment would connect to its own loopback address.
        with closing(_open(place, secure)) as connection:
            connection.request("GET", target, headers=dict(secure.headers) if secure is not None else {})
            response = connection.getresponse()
            return response.status, response.read()
    except ssl.SSLCertVerificationError as error:
        remedy = "give --certificate-authority FILE, or --insecure-skip-tls-verify"
        raise PageError(f"the certificate of {place} is not trusted ({error.verify_message}): {remedy}") from None
    except (OSError, ValueError, http.client.HTTPException) as error:
        reason = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
        remedy = f"start `trimtab run`, or set --address; in a cluster `{PORT_FORWARD}`, and add {FORWARDED}"
        raise PageError(f"no answer at {place} ({reason}): {remedy}") from None


def _open(place: str, secure: _Connection | None) -> http.client.HTTPConnection:
    if secure is None:
        return http.client.HTTPConnection(place, timeout=TIMEOUT)
    return http.client.HTTPSConnection(place, timeout=TIMEOUT, context=secure.context)


def _parse(status: int, content: bytes, grant: str) -> Json:
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError):
        answer = None
    if isinstance(answer, dict) and (status == OK or "problem" in answer):
        return answer
    message = answer.get("message", "") if isinstance(answer, dict) else ""
    if status == UNAUTHORIZED:
        remedy = "give a valid --token, for example of `kubectl create token`, or --kubeconfig"
        raise PageError(f"the process does not know who asks (401): {remedy}")
    if status == FORBIDDEN:
        raise PageError(f"{message or 'forbidden'}: {grant}")
    if message:
        raise PageError(f"{message} ({status})")
    raise PageError(f"unexpected answer with status {status}: {UNEXPECTED}")


def _secure(caller: Caller) -> _Connection:
    """A token of the flags, else what the kubeconfig has; its token goes only to a server whose certificate is verified."""
    from trimtab.kube.credentials import CredentialsError
    from trimtab.kube.credentials.auth import TlsMaterial, bearer_header, client_context

    try:
        authority = Path(caller.authority).read_bytes() if caller.authority else b""
        token = caller.token or (Path(caller.token_file).read_text().strip() if caller.token_file else "")
    except OSError as error:
        raise BadInput(f"{error.filename} cannot be read: {error.strerror}") from None
    material = TlsMaterial(ca=authority, verify=not caller.insecure)
    try:
        if token:
            return _Connection(client_context(material), bearer_header(token))
        headers, own = _of_kubeconfig(caller.kubeconfig)
        if headers and caller.insecure:
            remedy = "give --certificate-authority FILE, or a --token of your own choice"
            raise PageError(f"the kubeconfig's token is not sent to a server that is not verified: {remedy}")
        return _Connection(client_context(material._replace(certificate=own.certificate, key=own.key)), headers)
    except CredentialsError as error:
        raise BadInput(str(error)) from None


def _of_kubeconfig(path: str) -> tuple[Mapping[str, str], Any]:
    from trimtab.kube.credentials import find_credentials
    from trimtab.kube.credentials.auth import TlsMaterial

    state = asyncio.run(find_credentials(path).auth_state())
    return state.headers, state.material or TlsMaterial()

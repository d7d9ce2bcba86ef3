"""Decides what each failure of the network is called and whether the request may have arrived; leaves the rest to others."""

from __future__ import annotations

import errno
import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

import aiohttp

from trimtab.kube.credentials import CredentialsError
from trimtab.kube.transport.contract import IdleTimeout, Unreachable

NEVER_SENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ClientHttpProxyError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.InvalidURL,
    CredentialsError,
    ValueError,  # a request that cannot be put into HTTP, found out before its first byte is written
)


@contextmanager
def translate_errors() -> Iterator[None]:
    """Every failure of the network as one of ours; the cause is cut off because it may hold headers."""
    try:
        yield
    except NEVER_SENT as error:
        raise Unreachable(_message(error), sent=False) from None
    except aiohttp.SocketTimeoutError as error:
        raise IdleTimeout(_message(error), sent=True) from None
    except (aiohttp.ClientError, OSError) as error:
        raise Unreachable(_message(error), sent=True) from None


def connect_error(place: str, error: OSError) -> Unreachable:
    """A connection that never came about."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unreachable(f"the certificate of {place} is not trusted: {error}", sent=False)
    return Unreachable(f"no connection to {place}: {_system_reason(error)}", sent=False)


def _message(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"the certificate of {error.host}:{error.port} is not trusted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"no connection to {error.host}:{error.port}: {_system_reason(error.os_error)}"
    if isinstance(error, ValueError) and not isinstance(error, aiohttp.ClientError):
        return "the request cannot be put into HTTP: check the characters of the credentials"
    return str(error) or type(error).__name__


def _system_reason(error: OSError) -> str:
    """asyncio puts its own words in place of the system's."""
    number = 0 if isinstance(error, ssl.SSLError) else error.errno or 0
    return os.strerror(number) if number in errno.errorcode else str(error) or type(error).__name__

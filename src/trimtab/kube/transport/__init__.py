"""HTTP transports to the API server."""

from trimtab.kube.transport.aiohttp_transport import AiohttpTransport
from trimtab.kube.transport.contract import (
    IdleTimeout,
    NoCredentials,
    RateLimiter,
    Response,
    Stream,
    Transport,
    Unreachable,
    rate_limiter,
    requests_by_host,
)
from trimtab.kube.transport.pooled import PooledTransport
from trimtab.kube.transport.read_only import ReadOnlyTransport

__all__ = [
    "AiohttpTransport",
    "IdleTimeout",
    "NoCredentials",
    "PooledTransport",
    "RateLimiter",
    "ReadOnlyTransport",
    "Response",
    "Stream",
    "Transport",
    "Unreachable",
    "rate_limiter",
    "requests_by_host",
]

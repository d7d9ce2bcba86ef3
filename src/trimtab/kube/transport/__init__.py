"""HTTP transports to the API server."""

from trimtab.kube.transport.aiohttp_transport import AiohttpTransport
from trimtab.kube.transport.contract import (
    IdleTimeout,
    RateLimiter,
    Response,
    Stream,
    Transport,
    Unreachable,
    rate_limiter,
)
from trimtab.kube.transport.pooled import PooledTransport
from trimtab.kube.transport.read_only import ReadOnlyTransport

__all__ = [
    "AiohttpTransport",
    "IdleTimeout",
    "PooledTransport",
    "RateLimiter",
    "ReadOnlyTransport",
    "Response",
    "Stream",
    "Transport",
    "Unreachable",
    "rate_limiter",
]

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

__all__ = [
    "AiohttpTransport",
    "IdleTimeout",
    "PooledTransport",
    "RateLimiter",
    "Response",
    "Stream",
    "Transport",
    "Unreachable",
    "rate_limiter",
]

"""Decides how requests travel to the API server and back; leaves what to ask and what an answer means to others."""

from trimtab.kube.transport.aiohttp_transport import AiohttpTransport
from trimtab.kube.transport.contract import IdleTimeout, Response, Stream, Transport, Unreachable
from trimtab.kube.transport.pooled import PooledTransport

__all__ = ["AiohttpTransport", "IdleTimeout", "PooledTransport", "Response", "Stream", "Transport", "Unreachable"]

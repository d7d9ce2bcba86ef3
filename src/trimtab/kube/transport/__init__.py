"""Decides how requests travel to the API server and back; leaves what to ask and what an answer means to others."""

from trimtab.kube.transport.contract import Response, Silent, Stream, Transport, Unreachable
from trimtab.kube.transport.pooled import PooledTransport
from trimtab.kube.transport.through_aiohttp import AiohttpTransport

__all__ = ["AiohttpTransport", "PooledTransport", "Response", "Silent", "Stream", "Transport", "Unreachable"]

"""The ports of a process: opened first, so that a bad certificate or a taken port is known at once, and then served.

secure port    HTTPS: all pages, for callers that the API server knows and allows
loopback       HTTP: all pages, for this machine alone
health         HTTP: only /livez, /readyz and /healthz
status         HTTP: these and the labeller's pages, where its operator asked for that
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from trimtab.apps.loop_thread import LoopThread
from trimtab.kube.credentials import Credentials, CredentialsError, find_credentials
from trimtab.kube.delegated_reviews import ACCESS_REVIEWS, DELEGATOR_REMEDY, TOKEN_REVIEWS, may_create
from trimtab.kube.transport import AiohttpTransport, Transport
from trimtab.serve.access_filter import AccessFilter, Authorizer
from trimtab.serve.authentication import Authenticator
from trimtab.serve.client_ca import ClientCa
from trimtab.serve.health import Health
from trimtab.serve.http import Endpoints, MetricsEndpoint, RunPage, create_app
from trimtab.serve.listener import listen, serve
from trimtab.serve.options import Address, AlwaysAllowedPaths, SecureServing, Serving
from trimtab.serve.tls import ServerTls

log = logging.getLogger(__name__)
REVIEW_CONNECTIONS = 4  # reviews that are under way at once; further callers wait


@dataclass(frozen=True)
class Pages:
    """All pages of a process; `status` are those of the labeller, `run_page` is for those that read the engine."""

    health: Health
    metrics: MetricsEndpoint
    endpoints: tuple[Endpoints, ...] = ()
    status: tuple[Endpoints, ...] = ()
    run_page: RunPage | None = None

    def all(self, *filters: AccessFilter) -> web.Application:
        """Every page."""
        middlewares = [each.middleware for each in filters]
        pages = (*self.endpoints, *self.status)
        return create_app(self.health, self.metrics, *pages, middlewares=middlewares, run_page=self.run_page)


class Ports:
    """The sockets and the certificate; raises CannotListen, CertificateError or CredentialsError, and leaves nothing open."""

    def __init__(self, serving: Serving, credentials: Credentials) -> None:
        self._serving = serving
        self._sockets: dict[Address, socket.socket] = {}
        secure = serving.secure
        self._secure_port = _SecurePort(secure, credentials) if secure is not None else None
        addresses = [serving.loopback, serving.health, serving.status]
        try:
            if secure is not None:
                self._sockets[secure.address] = listen(secure.address, secure.permit_port_sharing)
            for each in filter(None, addresses):
                self._sockets[each] = listen(each)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close all sockets."""
        for each in self._sockets.values():
            each.close()

    def review_transports(self) -> Sequence[tuple[Credentials, AiohttpTransport]]:
        """What asks the API server about callers while the secure port is served, each with its credentials."""
        return self._secure_port.transports if self._secure_port is not None else ()

    @asynccontextmanager
    async def serve(self, pages: Pages) -> AsyncIterator[None]:
        """Serve inside the block."""
        serving = self._serving
        async with AsyncExitStack() as stack:
            if serving.secure is not None and self._secure_port is not None:
                access = await stack.enter_async_context(self._secure_port.delegate())
                await self._enter(stack, serving.secure.address, pages.all(access), self._secure_port.context)
            if serving.loopback is not None:
                await self._enter(stack, serving.loopback, pages.all())
            if serving.health is not None:
                await self._enter(stack, serving.health, create_app(pages.health))
            if serving.status is not None:
                log.warning("anybody who can connect may read the status, without TLS: address=%s", serving.status)
                status = create_app(pages.health, None, *pages.status, run_page=pages.run_page)
                await self._enter(stack, serving.status, status)
            yield

    async def _enter(
        self, stack: AsyncExitStack, address: Address, app: web.Application, context: ssl.SSLContext | None = None
    ) -> None:
        port = await stack.enter_async_context(serve(app, self._sockets[address], context))
        scheme = "http" if context is None else "https"
        log.info("serving: address=%s", f"{scheme}://{address._replace(port=port)}")


@asynccontextmanager
async def served(ports: Ports, pages: Pages) -> AsyncIterator[None]:
    """Serve inside the block, on a thread of its own: a probe is answered while the event loop of the caller is busy."""
    thread, stack = LoopThread("trimtab-pages"), AsyncExitStack()
    thread.start()
    try:
        await thread.call(stack.enter_async_context(ports.serve(pages)))
        yield
    finally:
        await thread.call(stack.aclose())
        thread.stop()


def run_on_this_loop() -> RunPage:
    """For pages that read what belongs to the event loop of the caller."""
    loop = asyncio.get_running_loop()

    async def run_page(page: Coroutine[Any, Any, web.StreamResponse]) -> web.StreamResponse:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(page, loop))

    return run_page


class _SecurePort:
    """TLS, and who may read what."""

    def __init__(self, options: SecureServing, own: Credentials) -> None:
        self._options = options
        self._authenticating = _credentials(options.authentication.kubeconfig, "--authentication-kubeconfig", own)
        self._authorizing = _credentials(options.authorization.kubeconfig, "--authorization-kubeconfig", own)
        self.transports: Sequence[tuple[Credentials, AiohttpTransport]] = ()
        self._allowed = AlwaysAllowedPaths(options.authorization.always_allow_paths)
        self._client_ca = ClientCa(options.authentication)
        self._tls = ServerTls(options.certificate, options.address.host, self._client_ca.pem, time.time)

    @property
    def context(self) -> ssl.SSLContext:
        return self._tls.context

    @asynccontextmanager
    async def delegate(self) -> AsyncIterator[AccessFilter]:
        """Ask the API server inside the block, and keep certificates up to date."""
        async with (
            AiohttpTransport(self._authenticating, REVIEW_CONNECTIONS) as authenticating,
            AiohttpTransport(self._authorizing, REVIEW_CONNECTIONS) as authorizing,
        ):
            self.transports = ((self._authenticating, authenticating), (self._authorizing, authorizing))
            await self._client_ca.look_up(authenticating)
            self._tls.update()
            await _check_rights(authenticating, *TOKEN_REVIEWS)
            await _check_rights(authorizing, *ACCESS_REVIEWS)
            async with _background(self._tls.run(), self._client_ca.run(authenticating, self._tls.reload)):
                yield self._filter(authenticating, authorizing)

    def _filter(self, authenticating: Transport, authorizing: Transport) -> AccessFilter:
        clock = asyncio.get_running_loop().time
        ttl, still_trusts = self._options.authentication.cache_ttl, self._tls.context.still_trusts
        authenticator = Authenticator(authenticating, ttl, clock, time.time, still_trusts)
        return AccessFilter(authenticator, Authorizer(authorizing, self._options.authorization, clock), self._allowed)


def _credentials(kubeconfig: str, flag: str, own: Credentials) -> Credentials:
    try:
        return find_credentials(kubeconfig) if kubeconfig else own
    except CredentialsError as error:
        raise CredentialsError(f"{flag}: {error}") from None


async def _check_rights(transport: Transport, resource: str, group: str) -> None:
    """Warn of a missing right; pods are scheduled without it, so the process goes on."""
    if not await may_create(transport, resource, group):
        log.warning(
            "the secure port will refuse every page that is not always allowed: forbidden=%s remedy=%s",
            *(f"create {resource}.{group}", DELEGATOR_REMEDY),
        )


@asynccontextmanager
async def _background(*loops: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(each) for each in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

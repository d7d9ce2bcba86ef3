"""Closing a transport leaves nothing behind, even if the API server hangs."""

import asyncio

import pytest

from tools.controlplane.rig import Rig
from trimtab.kube.credentials import find_credentials
from trimtab.kube.transport import AiohttpTransport, PooledTransport
from trimtab.wire.requests import PODS, list_request

pytestmark = pytest.mark.live


@pytest.mark.parametrize("kind", [AiohttpTransport, PooledTransport])
async def test_a_hung_server_keeps_no_socket_open(rig: Rig, kind: type[AiohttpTransport]) -> None:
    """Requests given up while the server hangs, then closed: no socket of ours waits for a TLS farewell."""
    transport = kind(find_credentials(str(rig.admin_kubeconfig)))
    await transport.send(list_request(PODS), 10.0)
    rig.apiserver.pause()
    try:
        given_up = [asyncio.create_task(transport.send(list_request(PODS), 30.0)) for _ in range(3)]
        await asyncio.sleep(0.3)
        for task in given_up:
            task.cancel()
        await asyncio.gather(*given_up, return_exceptions=True)
        await transport.close()
        assert [-1] * len(transport._sockets) == [each.fileno() for each in transport._sockets]
    finally:
        rig.apiserver.resume()

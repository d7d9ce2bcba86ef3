"""Two network namespaces, joined by a veth pair: the pod's, and that of all others, who have an address each.

Their addresses exist in these namespaces only, and nothing leads out of them but `forward`, to a port of loopback.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, Self

import pytest

CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)
KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
PATIENCE = 1.0  # seconds for an answer within one kernel
CHUNK = 1 << 16


class Attempt(NamedTuple):
    """To reach a port from an address."""

    source: str
    destination: str
    protocol: str
    port: int


def require_namespaces() -> None:
    """Skip where namespaces or their rules cannot be made: only root can, and not in every container."""
    command = ["unshare", "--net", "--mount", "nft", "add", "table", "inet", "trial"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode or shutil.which("ip") is None:
        reason = done.stderr.strip().partition("\n")[0] or "there is no ip"
        pytest.skip(f"network namespaces need root, iproute2 and nftables: {reason}")


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Sockets that this thread creates meanwhile belong to the namespace, whoever uses them later."""
    with Path("/proc/thread-self/ns/net").open() as own, Path("/run/netns", namespace).open() as other:
        _enter(other.fileno())
        try:
            yield
        finally:
            _enter(own.fileno())


def _enter(namespace: int) -> None:
    if LIBC.setns(namespace, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


class Network:
    """The namespaces `pod` and `others`, and what listens in them."""

    def __init__(self, address: str, others: Iterable[str]) -> None:
        """With the pod's address and those of the others; nothing is created yet."""
        self.address, self._addresses = address, tuple(others)
        self.pod, self.others = (f"trimtab-{os.getpid()}-{name}" for name in ("pod", "others"))
        self._open = ExitStack()

    def __enter__(self) -> Self:
        """Create the namespaces; delete them again if that fails."""
        with ExitStack() as opened:
            for name in (self.pod, self.others):
                _ip("netns", "add", name)
                opened.callback(_ip, "netns", "delete", name)
            _ip("-n", self.pod, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", self.others)
            self._set_up(self.pod, [self.address])
            self._set_up(self.others, self._addresses)
            self._open = opened.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Close all listeners and delete the namespaces."""
        self._open.close()

    def _set_up(self, namespace: str, addresses: Iterable[str]) -> None:
        for address in addresses:
            _ip("-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
        for device in ("lo", "eth0"):
            _ip("-n", namespace, "link", "set", device, "up")

    def enforce(self, rules: str) -> None:
        """Load nftables rules into the pod's namespace."""
        command = ["ip", "netns", "exec", self.pod, "nft", "-f", "-"]
        subprocess.run(command, input=rules, text=True, check=True, timeout=20)

    def forward(self, address: str, port: int, target: int) -> None:
        """Pass on every connection to this address to a port of the machine's loopback."""
        listener = self._socket(address, "tcp", port)
        listener.listen()
        threading.Thread(target=_accept, args=(listener, target), daemon=True).start()

    def answer(self, address: str, protocol: str, port: int) -> None:
        """Accept connections to this address, or return its datagrams."""
        listener = self._socket(address, protocol, port)
        if protocol == "tcp":
            listener.listen()
        else:
            threading.Thread(target=_echo, args=(listener,), daemon=True).start()

    def reached(self, attempts: Iterable[Attempt]) -> set[Attempt]:
        """Those of the attempts, all at once, that get an answer."""
        with ExitStack() as opened:
            clients = {each: opened.enter_context(self._bound(each.source, each.protocol)) for each in attempts}
            with ThreadPoolExecutor(len(clients)) as pool:
                answers = pool.map(_gets_answer, clients, clients.values())
                return {each for each, answered in zip(clients, answers, strict=True) if answered}

    def _socket(self, address: str, protocol: str, port: int) -> socket.socket:
        return self._open.enter_context(self._bound(address, protocol, port))

    def _bound(self, address: str, protocol: str, port: int = 0) -> socket.socket:
        with inside(self.pod if address == self.address else self.others):
            made = socket.socket(type=KINDS[protocol])
        made.settimeout(PATIENCE)
        made.bind((address, port))
        return made


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, timeout=20)


def _gets_answer(attempt: Attempt, client: socket.socket) -> bool:
    try:
        client.connect((attempt.destination, attempt.port))
        if attempt.protocol == "udp":
            client.send(b"?")
            client.recv(1)
    except OSError:
        return False
    return True


def _echo(listener: socket.socket) -> None:
    """Return datagrams until the socket is closed."""
    while listener.fileno() >= 0:
        with suppress(OSError):
            data, sender = listener.recvfrom(CHUNK)
            listener.sendto(data, sender)


def _accept(listener: socket.socket, target: int) -> None:
    """Serve each caller in a thread of its own until the socket is closed."""
    while listener.fileno() >= 0:
        with suppress(OSError):
            caller, _ = listener.accept()
            threading.Thread(target=_pass_on, args=(caller, target), daemon=True).start()


def _pass_on(caller: socket.socket, target: int) -> None:
    """Copy both ways until one end closes."""
    with caller, suppress(OSError), socket.create_connection(("127.0.0.1", target)) as server:
        back = threading.Thread(target=_copy, args=(server, caller), daemon=True)
        back.start()
        _copy(caller, server)
        back.join()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(CHUNK):
            target.sendall(data)
    for each in (source, target):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)

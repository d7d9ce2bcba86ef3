"""Decides whether one request leaves, each time that it is about to; leaves why it may not to whoever wrote it."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.kube.transport.contract import Unreachable


class SendGate:
    """`passed` is true from when a request began to leave until an answer says that it never happened."""

    def __init__(self, may_send: Callable[[], bool]) -> None:
        self.maybe_sent = False
        self._may_send = may_send

    def check(self) -> None:
        """Called right before the request is written."""
        if not self._may_send():
            raise Unreachable("not sent: somebody else may lead by now", sent=False)
        self.maybe_sent = True

    def rejected(self) -> None:
        """The server did not know us, so nothing has happened yet."""
        self.maybe_sent = False

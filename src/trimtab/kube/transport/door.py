"""Decides whether one request leaves, each time that it is about to; leaves why it may not to whoever wrote it."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.kube.transport.contract import Unreachable


class Door:
    """`passed` is true from when a request began to leave until an answer says that it never happened."""

    def __init__(self, may_leave: Callable[[], bool]) -> None:
        self.passed = False
        self._may_leave = may_leave

    def leave(self) -> None:
        """Called right before the request is written."""
        if not self._may_leave():
            raise Unreachable("not sent: somebody else may lead by now", sent=False)
        self.passed = True

    def come_back(self) -> None:
        """The server did not know us, so nothing has happened yet."""
        self.passed = False

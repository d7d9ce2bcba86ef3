"""What became of one pod of the simulated cluster; the world keeps these beyond the pods themselves."""

from __future__ import annotations

from msgspec import Struct


class PodLife(Struct):
    """The times of one pod, and how often its containers ran out of memory.

    `unready` adds up the seconds after the first readiness in which it was not ready. `left` says why it was deleted.
    """

    key: str
    created: float
    scheduler_name: str
    bound: float | None = None
    node: str = ""
    ready_at: float | None = None  # for the first time
    removed: float | None = None
    left: str = ""
    oom_kills: int = 0
    backoff: float = 0.0  # the last one
    unready: float = 0.0
    unready_since: float | None = None

    def note_readiness(self, ready: bool, now: float) -> None:
        if not ready:
            self.unready_since = now if self.ready_at is not None else None
            return
        if self.ready_at is None:
            self.ready_at = now
        self._end_unready(now)

    def leave(self, why: str, now: float) -> None:
        """It is deleted: from now on its replacement is what is missing. Only the first reason counts."""
        if not self.left:
            self.left = why
            self._end_unready(now)

    def unready_until(self, now: float) -> float:
        return self.unready + (now - self.unready_since if self.unready_since is not None else 0.0)

    def _end_unready(self, now: float) -> None:
        self.unready, self.unready_since = self.unready_until(now), None

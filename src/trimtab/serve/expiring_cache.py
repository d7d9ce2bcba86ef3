"""A bounded cache of answers that expire; callers that ask for the same key at the same time share one question."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_ENTRIES = 1024


class ExpiringCache(Generic[K, V]):
    """`time_to_live` says how many seconds an answer is kept; errors are not. When full, the oldest answer goes."""

    def __init__(
        self,
        time_to_live: Callable[[V], float],
        clock: Callable[[], float],
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        self._time_to_live, self._clock, self._max_entries = time_to_live, clock, max_entries
        self._answers: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asking: dict[K, asyncio.Task[V]] = {}

    def __len__(self) -> int:
        return len(self._answers)

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """The answer that is still fresh, or the one to `ask`."""
        known = self._answers.get(key)
        if known is not None and self._clock() < known[0]:
            return known[1]
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.ensure_future(self._ask(key, ask))
            task.add_done_callback(lambda done: self._asked(key, done))
        return await asyncio.shield(task)  # a caller that gives up must not take the answer from the others

    async def _ask(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        answer = await ask()
        self._answers.pop(key, None)
        self._answers[key] = self._clock() + self._time_to_live(answer), answer
        while len(self._answers) > self._max_entries:
            self._answers.popitem(last=False)
        return answer

    def _asked(self, key: K, done: asyncio.Task[V]) -> None:
        self._asking.pop(key, None)
        if not done.cancelled():
            done.exception()  # every caller may have gone: then nobody else would look at it

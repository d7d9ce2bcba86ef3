"""A bounded cache of answers to reviews; logs once when reviews begin to fail, and once when they work again.

Callers that ask for the same key at the same time share one review.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from trimtab.kube.delegated_reviews import ReviewUnavailable

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

log = logging.getLogger(__name__)
MAX_ENTRIES = 1024


class ReviewCache(Generic[K, V]):
    """For one kind of review. `time_to_live` says how many seconds an answer is kept; when full, the oldest one goes.

    Failures are not kept. Only reviews that are sent count for the log: an answer from the cache ends no failure.
    """

    def __init__(
        self,
        kind: str,
        time_to_live: Callable[[V], float],
        clock: Callable[[], float],
        max_entries: int = MAX_ENTRIES,
    ) -> None:
        self._kind, self._failing = kind, False
        self._time_to_live, self._clock, self._max_entries = time_to_live, clock, max_entries
        self._answers: OrderedDict[K, tuple[float, V]] = OrderedDict()
        self._asking: dict[K, asyncio.Task[V]] = {}

    def __len__(self) -> int:
        return len(self._answers)

    async def get(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        """The answer that is still fresh, or the one to `ask`; raises what that raises, such as ReviewUnavailable."""
        known = self._answers.get(key)
        if known is not None and self._clock() < known[0]:
            return known[1]
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.ensure_future(self._ask(key, ask))
            task.add_done_callback(lambda done: self._asked(key, done))
        return await asyncio.shield(task)  # a caller that gives up must not take the answer from the others

    async def _ask(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        try:
            answer = await ask()
        except ReviewUnavailable as error:
            if not self._failing:
                log.error("review failed, answering 503: review=%s reason=%s", self._kind, error)
            self._failing = True
            raise
        if self._failing:
            log.info("reviews work again: review=%s", self._kind)
        self._failing = False
        self._keep(key, answer)
        return answer

    def _keep(self, key: K, answer: V) -> None:
        self._answers.pop(key, None)
        self._answers[key] = self._clock() + self._time_to_live(answer), answer
        while len(self._answers) > self._max_entries:
            self._answers.popitem(last=False)

    def _asked(self, key: K, done: asyncio.Task[V]) -> None:
        self._asking.pop(key, None)
        if not done.cancelled():
            done.exception()  # every caller may have gone: then nobody else would look at it

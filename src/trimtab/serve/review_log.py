"""Says once in the log when reviews begin to fail, and once when they are answered again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TypeVar

from trimtab.kube.delegated_reviews import ReviewUnavailable

log = logging.getLogger(__name__)
T = TypeVar("T")


class ReviewLog:
    """For one kind of review. Only reviews that are sent count: a request answered from the cache ends no failure."""

    def __init__(self, kind: str) -> None:
        self._kind, self._failing = kind, False

    async def observe(self, review: Awaitable[T]) -> T:
        """The answer to a review."""
        try:
            answer = await review
        except ReviewUnavailable as error:
            if not self._failing:
                log.error("review failed, answering 503: review=%s reason=%s", self._kind, error)
            self._failing = True
            raise
        if self._failing:
            log.info("reviews work again: review=%s", self._kind)
        self._failing = False
        return answer

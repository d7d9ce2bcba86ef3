"""Cuts the series out of a response while it arrives, piece by piece, so that a large one is never in memory as a whole.

    {"status":"success","data":{"resultType":"vector","result":[ {…},{…}, … ,{…} ]}}
    └───────────────────────── kept ────────────────────────────┘└── pieces ──┘└ kept ┘

What is kept is a response with the last series alone, to be decoded and checked as a small one is. Series are told apart by
the bytes between them: inside a JSON string the quotation mark of `{"metric"` would be escaped, so they occur nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

PIECE_BYTES = 1 << 17  # a piece takes a millisecond or two to decode
MAX_KEPT_BYTES = 8 << 20
_RESULT = re.compile(rb'"result"\s*:\s*\[')
_BETWEEN = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:metric|values?)"\s*:)')
_USUAL = b'},{"metric":'


class TooLarge(Exception):
    """The response has more bytes than may be kept, and no series to cut out."""


class SeriesCutter:
    """Feed it the body as it comes; `body` is what is kept in the end."""

    def __init__(self) -> None:
        self._kept = bytearray()
        self._start = 0  # of the series; 0 before it is known
        self._searched = 0

    @property
    def body(self) -> bytes:
        return bytes(self._kept)

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The pieces that are complete now, each a JSON array of series; TooLarge if there is too much to keep."""
        self._kept += data
        while len(self._kept) - self._start > PIECE_BYTES and self._find_start():
            cut = self._last_cut()
            if not cut:
                break
            piece = b"".join((b"[", memoryview(self._kept)[self._start : cut], b"]"))
            del self._kept[self._start : self._next(cut)]
            self._searched = 0
            yield piece
        if len(self._kept) > MAX_KEPT_BYTES:
            raise TooLarge

    def _find_start(self) -> bool:
        if not self._start and (found := _RESULT.search(self._kept, 0, PIECE_BYTES)):
            self._start = found.end()
        return bool(self._start)

    def _last_cut(self) -> int:
        """Just behind a series that is followed by another, as far into the piece as possible; 0 if there is none."""
        end = max(self._start + PIECE_BYTES, self._searched)
        if (usual := self._kept.rfind(_USUAL, self._start, end)) >= 0:
            return usual + 1
        found = _BETWEEN.search(self._kept, max(self._start, self._searched - len(_USUAL)))
        if found is None:
            self._searched = len(self._kept)
        return found.start() + 1 if found is not None else 0

    def _next(self, cut: int) -> int:
        """Where the next series begins: behind the comma."""
        return self._kept.index(b",", cut) + 1

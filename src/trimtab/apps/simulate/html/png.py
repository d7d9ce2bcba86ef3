"""Pictures of tables: a heatmap as a PNG with a palette, small enough to be part of the page."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Sequence
from itertools import pairwise

STEP = 0.025  # of load, between two colours
LEVELS = 61  # up to 150 %
UNKNOWN = LEVELS  # transparent
# Load and colour, linear between: dark to light blue up to 80 %, then amber to red; also the colour-blind see the border.
STOPS = (
    (0.0, (16, 28, 54)),
    (0.4, (47, 91, 143)),
    (0.799, (164, 203, 234)),
    (0.8, (255, 209, 84)),
    (1.0, (240, 98, 28)),
    (1.5, (150, 12, 62)),
)


def colour(load: float) -> tuple[int, int, int]:
    """Of a load relative to capacity."""
    for (low, first), (high, last) in pairwise(STOPS):
        if load <= high:
            share = max(load - low, 0.0) / (high - low)
            red, green, blue = (round(a + (b - a) * share) for a, b in zip(first, last, strict=True))
            return red, green, blue
    return STOPS[-1][1]


PALETTE = tuple(colour(level * STEP) for level in range(LEVELS))


def level_of(load: float | None) -> int:
    return UNKNOWN if load is None else min(max(round(load / STEP), 0), LEVELS - 1)


def heatmap_png(rows: Sequence[Sequence[float | None]]) -> bytes:
    """One pixel per value, one line per row; values are loads relative to capacity."""
    width, height = len(rows[0]), len(rows)
    lines = b"".join(b"\0" + bytes(map(level_of, row)) for row in rows)
    palette = b"".join(bytes(each) for each in (*PALETTE, (0, 0, 0)))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        _chunk(kind, content)
        for kind, content in (
            (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            (b"PLTE", palette),
            (b"tRNS", b"\xff" * LEVELS + b"\0"),
            (b"IDAT", zlib.compress(lines, 9)),
            (b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def data_uri(png: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(png).decode()}"


def shrink(rows: Sequence[Sequence[float | None]], columns: int) -> list[list[float | None]]:
    """At most so many columns, each with the highest value that it stands for: a thumbnail must not hide a peak."""
    size = max(1, -(-len(rows[0]) // columns))
    return [[_highest(row[start : start + size]) for start in range(0, len(row), size)] for row in rows]


def _highest(values: Sequence[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)

"""Random numbers that depend on a seed and on what they are for, never on the order in which they are drawn.

So one seed gives every policy the same world: the same pod starts as fast and is as noisy, wherever it was placed.
"""

from __future__ import annotations

from hashlib import blake2b
from uuid import UUID

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]
_UNIT = 2.0**-64


def key_of(seed: int, *purpose: str | int) -> int:
    """64 bits that identify a purpose, such as the noise of one pod."""
    text = "\0".join(map(str, (seed, *purpose)))
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest())


def uniform(low: float, high: float, seed: int, *purpose: str | int) -> float:
    return low + (high - low) * key_of(seed, *purpose) * _UNIT


def uid_of(seed: int, *purpose: str | int) -> str:
    text = "\0".join(map(str, (seed, *purpose)))
    return str(UUID(bytes=blake2b(text.encode(), digest_size=16).digest(), version=4))


def uniforms(key: int | Keys, indices: NDArray[np.int64]) -> Floats:
    """A number from 0 to 1 for each index: the splitmix64 generator started at `key`, or at one key for each."""
    with np.errstate(over="ignore"):
        state = indices.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.asarray(key, dtype=np.uint64)
        state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return (state ^ (state >> np.uint64(31))).astype(np.float64) * _UNIT

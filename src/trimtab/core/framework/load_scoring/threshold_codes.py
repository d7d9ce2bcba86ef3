"""Turns "above its limit", for several limits at once, into a filter's codes and back; the limits are the plugins' own.

A code is a set of bits, one per limit in their order. Where the pod alone would pass a limit no eviction helps, and the
code is twice that below 0, so that -1 stays free for what a plugin refuses for other reasons.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from trimtab.core.framework.interface import Bools, Ints


def encode(above: Bools, pod_only_above: Callable[[], Bools] | None = None) -> Ints:
    """One line per limit: which rows are above it, and, asked only where some are, on which the pod alone would be."""
    if not above.any():
        return np.zeros(above.shape[1], dtype=np.int64)
    answer: Ints = (1 << np.arange(len(above), dtype=np.int64)) @ above
    if pod_only_above is not None:
        answer[(above & pod_only_above()).any(axis=0)] *= -2
    return answer


def decode(code: int) -> list[int]:
    """The limits behind a code, by their place in the order."""
    bits = code if code > 0 else -code // 2
    return [bit for bit in range(bits.bit_length()) if bits >> bit & 1]

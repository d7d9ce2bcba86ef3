"""Filter codes for several thresholds at once.

A code is a set of bits, one per threshold in order. Where the pod alone exceeds a threshold no eviction helps, and the
code is -2 times the bits, so that -1 stays free for other reasons of the plugin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from trimtab.core.framework.interface import Bools, Ints


def encode(above: Bools, pod_only_above: Callable[[], Bools] | None = None) -> Ints:
    """One line per threshold: which rows exceed it, and, evaluated only where some do, where the pod alone does."""
    if not above.any():
        return np.zeros(above.shape[1], dtype=np.int64)
    codes: Ints = (1 << np.arange(len(above), dtype=np.int64)) @ above
    if pod_only_above is not None:
        codes[(above & pod_only_above()).any(axis=0)] *= -2
    return codes


def encode_row(above: Iterable[bool], alone: Callable[[], Iterable[bool]]) -> int:
    """The same for one row, in plain numbers."""
    exceeded = [*above]
    if True not in exceeded:
        return 0
    bits = sum(1 << bit for bit, above_limit in enumerate(exceeded) if above_limit)
    unresolvable = any(above_limit and pod_only for above_limit, pod_only in zip(exceeded, alone(), strict=True))
    return -2 * bits if unresolvable else bits


def decode(code: int) -> list[int]:
    """The indices of the thresholds behind a code."""
    bits = code if code > 0 else -code // 2
    return [bit for bit in range(bits.bit_length()) if bits >> bit & 1]

"""Turns "above its limit", for several limits at once, into a filter's codes and back; the limits are the plugins' own.

A code is a set of bits, one per limit in their order. Where the pod alone would pass a limit no eviction helps, and the
code is twice that below 0, so that -1 stays free for what a plugin refuses for other reasons.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trimtab.core.placing.contract import Bools, Ints


def codes_above(count: int, judged: Iterable[tuple[Bools, Bools]]) -> Ints:
    """By limit: which rows are above it, and on which the pod alone would be."""
    answer, hopeless = np.zeros(count, dtype=np.int64), np.zeros(count, dtype=np.bool_)
    for bit, (above, alone) in enumerate(judged):
        if above.any():
            answer |= above.astype(np.int64) << bit
            hopeless |= above & alone
    if hopeless.any():
        answer[hopeless] *= -2
    return answer


def passed(code: int) -> list[int]:
    """The limits behind a code, by their place in the order."""
    bits = code if code > 0 else -code // 2
    return [bit for bit in range(bits.bit_length()) if bits >> bit & 1]

"""Percentages of allocatable are exact at every size."""

import numpy as np
import pytest

from trimtab.core.framework.resource_amounts import EXACT_AS_FLOAT, EXACT_AS_INT, is_scalar, percent
from trimtab.core.model.resources import MAX_AMOUNT


@pytest.mark.parametrize("whole", [1, 3, 7, 4000, EXACT_AS_FLOAT - 1, EXACT_AS_FLOAT, EXACT_AS_INT + 1, MAX_AMOUNT])
def test_exact(whole: int) -> None:
    """Whole numbers, rounded down, also just below and on a whole percent, beside nodes of any other size."""
    parts = sorted({0, 1, whole // 3, whole * 29 // 100, -(-whole * 29 // 100), max(whole - 1, 0), whole})
    for other in (1, EXACT_AS_FLOAT, MAX_AMOUNT):
        column = np.array([*parts, 0], dtype=np.int64)
        sizes = np.array([whole] * len(parts) + [other], dtype=np.int64)
        assert [part * 100 // whole for part in parts] == percent(column, sizes).tolist()[:-1]


def test_nothing_offered() -> None:
    """Of nothing there is no share."""
    assert [0] == percent(np.array([0]), np.array([0])).tolist()


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        ("cpu", False),
        ("memory", False),
        ("pods", False),
        ("ephemeral-storage", False),
        ("nvidia.com/gpu", True),
        ("hugepages-2Mi", True),
        ("attachable-volumes-csi", True),
        ("kubernetes.io/batteries", True),
    ],
)
def test_scalars(resource: str, expected: bool) -> None:
    """Scalar resources are distinguished from those that every node has."""
    assert expected == is_scalar(resource)

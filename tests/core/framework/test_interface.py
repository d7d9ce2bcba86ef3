"""How raw scores become scores between 0 and 100."""

import numpy as np
import pytest

from trimtab.core.framework.interface import Normalise, default_normalise, filter_codes


@pytest.mark.parametrize(
    ("how", "raw", "expected"),
    [
        (Normalise.NONE, [3, 250], [3, 250]),
        (Normalise.HIGHER, [0, 1, 3], [0, 33, 100]),
        (Normalise.HIGHER, [0, 0], [0, 0]),
        (Normalise.LOWER, [0, 1, 3], [100, 67, 0]),
        (Normalise.LOWER, [0, 0], [100, 100]),
        (Normalise.LOWER, [], []),
    ],
)
def test_normalised(how: Normalise, raw: list[int], expected: list[int]) -> None:
    """Scaled by the highest and rounded down, or that taken from 100; all zeros are all worst, or all best."""
    assert expected == default_normalise(how, np.array(raw, dtype=np.int64)).tolist()


def test_codes() -> None:
    """Rows that pass have code 0, all others the one given."""
    assert [0, -1] == filter_codes(np.array([True, False]), -1).tolist()

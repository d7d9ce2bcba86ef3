"""Random numbers by seed and purpose: repeatable, independent of order, and evenly distributed."""

from uuid import UUID

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trimtab.sim.randomness import key_of, uid_of, uniform, uniforms


def test_known_values() -> None:
    """They never change: recorded comparisons of policies stay reproducible with another version."""
    assert 2941726053830288972 == key_of(1, "start", "default/web-0")
    assert 0xE220A8397B1DCDAF * 2.0**-64 == uniforms(0, np.array([1]))[0], "the published first output of splitmix64"


@given(st.integers(0, 2**63), st.text(max_size=20), st.text(max_size=20))
def test_a_key_depends_on_the_seed_and_on_each_part_of_the_purpose(seed: int, one: str, other: str) -> None:
    """Parts are not run together, so ("ab", "c") and ("a", "bc") differ."""
    assert key_of(seed, one, other) == key_of(seed, one, other)
    assert key_of(seed, one, other) != key_of(seed + 1, one, other)
    assert key_of(seed, one + other) != key_of(seed, one, other)


@given(st.integers(0, 1000), st.floats(-100, 100), st.floats(0, 100))
def test_uniform_is_within_its_bounds(seed: int, low: float, width: float) -> None:
    """Including a width of 0, which gives the bound itself."""
    assert low <= uniform(low, low + width, seed, "purpose") <= low + width


@given(st.integers(0, 2**64 - 1))
def test_uniforms_do_not_depend_on_what_else_is_drawn(key: int) -> None:
    """Any index has its number, alone or among others, and none is outside of 0 to 1."""
    together = uniforms(key, np.arange(50))
    assert [float(uniforms(key, np.array([index]))[0]) for index in range(50)] == together.tolist()
    assert 0.0 <= together.min() <= together.max() <= 1.0


def test_uniforms_are_spread_evenly() -> None:
    """Of 10,000 numbers about a thousand are in each tenth, and neighbouring keys are not correlated."""
    one, other = uniforms(5, np.arange(10_000)), uniforms(6, np.arange(10_000))
    counts, _ = np.histogram(one, np.linspace(0, 1, 11))
    assert 850 < counts.min() <= counts.max() < 1150
    assert abs(float(np.corrcoef(one, other)[0, 1])) < 0.05


def test_uids_are_uuids_of_their_own() -> None:
    """Valid, of version 4, and different for each incarnation of a pod's name."""
    uids = [uid_of(1, "default", "web-0", incarnation) for incarnation in range(100)]
    assert 100 == len(set(uids))
    assert {4} == {UUID(uid).version for uid in uids}

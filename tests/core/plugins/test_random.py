"""Random ranks nodes anew for each pod, the same in every run, and each node is as likely as any other."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.build import cluster, node, pod
from tests.core.plugins.ask_plugin import raw_scores
from trimtab.core.framework.interface import ALL_ROWS
from trimtab.core.plugins.random import Random

NAMES = tuple("abcdefgh")
NODES = [node(name) for name in NAMES]


def winner(seed: int, uid: str) -> str:
    scores = raw_scores(Random(seed), pod("web", uid=uid), *NODES)
    assert scores is not None
    return max(scores, key=lambda name: scores[name])


def test_each_node_is_as_likely() -> None:
    """Of 4,000 pods each of eight nodes gets an eighth, within four deviations."""
    counts = Counter(winner(0, f"uid-{number}") for number in range(4000))
    assert [] == [name for name in NAMES if abs(counts[name] - 500) > 84]


def test_the_second_choice_is_random_too() -> None:
    """Of the pods whose best node is rejected, each other node gets a seventh."""
    seconds = Counter[str]()
    for number in range(4000):
        scores = raw_scores(Random(), pod("web", uid=f"uid-{number}"), *NODES)
        assert scores is not None
        first, second, *_ = sorted(NAMES, key=lambda name: -scores[name])
        if first == "a":
            seconds[second] += 1
    expected = seconds.total() / 7
    assert [] == [name for name in NAMES[1:] if abs(seconds[name] - expected) > 4 * expected**0.5]


def test_the_same_in_every_run() -> None:
    """Neither the order of nodes nor the pod's requests matter; the seed does."""
    web = pod("web", uid="1")
    forward = raw_scores(Random(3), web, *NODES)
    assert forward == raw_scores(Random(3), pod("other", uid="1", cpu="1"), *reversed(NODES))
    assert forward != raw_scores(Random(4), web, *NODES)


def test_scores_use_the_whole_range() -> None:
    """From 0 to 100 points, in fine steps."""
    column = Random().score(cluster(*(node(f"n{number}") for number in range(1000))).view, pod("web"), ALL_ROWS)
    assert column is not None
    assert (True, True, 1000) == (column.min() < 1_000_000, column.max() > 99_000_000, len({*column.tolist()}))


def test_the_seed_is_checked() -> None:
    """It is not negative."""
    with pytest.raises(ValueError, match="seed: -1 must be 0 or more"):
        Random(-1)

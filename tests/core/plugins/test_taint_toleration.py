"""Which taints reject a pod, which lower the score, and which are ignored."""

import pytest

from tests.build import node, pod
from tests.core.plugins.ask_plugin import raw_scores, rejection, scores
from trimtab.core.plugins.taint_toleration import TaintToleration

UNTOLERATED = "! node(s) had untolerated taint(s)"


@pytest.mark.parametrize(
    ("taints", "tolerations", "expected"),
    [
        ([], [], ""),
        (["gpu=yes:NoSchedule"], [], UNTOLERATED),
        (["gpu=yes:NoExecute"], [], UNTOLERATED),
        (["gpu=yes:PreferNoSchedule"], [], ""),
        (["gpu=yes:NoSchedule"], ["gpu=yes:NoSchedule"], ""),
        (["gpu=yes:NoSchedule"], ["gpu=no:NoSchedule"], UNTOLERATED),
        (["gpu=yes:NoSchedule"], ["gpu:NoSchedule"], ""),
        (["gpu=yes:NoSchedule"], ["gpu:NoExecute"], UNTOLERATED),
        (["gpu=yes:NoSchedule"], ["gpu"], ""),
        (["gpu=yes:NoSchedule"], [""], ""),
        (["gpu=yes:NoSchedule", "old=1:NoExecute"], ["gpu"], UNTOLERATED),
        (["gpu=yes:NoSchedule", "old=1:NoExecute"], ["gpu", ":NoExecute"], ""),
    ],
)
def test_filter(taints: list[str], tolerations: list[str], expected: str) -> None:
    """Every hard taint must be tolerated, by key, value and effect."""
    assert expected == rejection(TaintToleration(), pod("web", tolerations=tolerations), node("a", taints=taints))


@pytest.mark.parametrize(
    ("tolerations", "raw", "normal"),
    [
        ([], {"none": 0, "one": 1, "two": 2}, {"none": 100, "one": 50, "two": 0}),
        (["a:PreferNoSchedule"], {"none": 0, "one": 0, "two": 1}, {"none": 100, "one": 100, "two": 0}),
        (["a:NoSchedule"], {"none": 0, "one": 1, "two": 2}, {"none": 100, "one": 50, "two": 0}),
        ([""], {"none": 0, "one": 0, "two": 0}, {"none": 100, "one": 100, "two": 100}),
    ],
)
def test_score(tolerations: list[str], raw: dict[str, int], normal: dict[str, int]) -> None:
    """Each soft taint that is not tolerated counts one, and the fewest are best."""
    soft = ["a=1:PreferNoSchedule", "b=1:PreferNoSchedule"]
    seen = [node("none"), node("one", taints=soft[:1]), node("two", taints=soft)]
    wanted = pod("web", tolerations=tolerations)
    assert raw == raw_scores(TaintToleration(), wanted, *seen)
    assert normal == scores(TaintToleration(), wanted, *seen)

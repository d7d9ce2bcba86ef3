"""Which pods may run on a cordoned node."""

import pytest

from tests.build import node, pod
from tests.core.plugins.ask_plugin import rejections
from trimtab.core.plugins.node_unschedulable import NodeUnschedulable

CORDONED = "! node(s) were unschedulable"


@pytest.mark.parametrize(
    ("tolerations", "expected"),
    [
        ([], CORDONED),
        ([""], ""),
        (["node.kubernetes.io/unschedulable:NoSchedule"], ""),
        (["node.kubernetes.io/unschedulable=:NoSchedule"], ""),
        (["node.kubernetes.io/unschedulable:NoExecute"], CORDONED),
        (["other:NoSchedule"], CORDONED),
    ],
)
def test_cordon(tolerations: list[str], expected: str) -> None:
    """A cordon counts like its taint: a pod that tolerates the taint passes."""
    seen = [node("open"), node("cordoned", unschedulable=True)]
    assert {"open": "", "cordoned": expected} == rejections(
        NodeUnschedulable(), pod("web", tolerations=tolerations), *seen
    )

"""A pod that names its node fits only that node."""

import pytest

from tests.build import node, pod
from tests.core.plugins.ask_plugin import rejections
from trimtab.core.plugins.node_name import NodeName

ELSEWHERE = "! node(s) didn't match the requested node name"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("", {"a": "", "b": ""}),
        ("a", {"a": "", "b": ELSEWHERE}),
        ("unknown", {"a": ELSEWHERE, "b": ELSEWHERE}),
    ],
)
def test_named_node(wanted: str, expected: dict[str, str]) -> None:
    """Only the named node passes; no name means any node."""
    assert expected == rejections(NodeName(), pod("web", on=wanted), node("a"), node("b"))

"""Which nodes a pod's selector and affinity allow and prefer, and what a profile adds to them."""

import pytest

from tests.build import cluster, node, pod, prefers, term
from tests.core.plugins.ask_plugin import raw_scores, rejection, rejections, scores
from trimtab.core.framework.interface import NodeSubset, PreFilterStatus, Reject
from trimtab.core.model.affinity import NodeAffinity as Wishes
from trimtab.core.model.affinity import PreferredSchedulingTerm
from trimtab.core.model.selectors import NodeSelectorTerm
from trimtab.core.plugins.node_affinity import NodeAffinity

MISMATCH = "! node(s) didn't match Pod's node affinity/selector"
ENFORCED = "! node(s) didn't match scheduler-enforced node affinity"
NODE = node("a", labels={"zone": "z1", "gen": "4", "empty": ""})


@pytest.mark.parametrize(
    ("line", "matches"),
    [
        ("zone In z1,z2", True),
        ("zone In z2", False),
        ("disk In ssd", False),
        ("zone NotIn z2", True),
        ("disk NotIn ssd", True),
        ("zone Exists", True),
        ("empty Exists", True),
        ("disk DoesNotExist", True),
        ("gen Gt 3", True),
        ("gen Gt 4", False),
        ("gen Lt 13", True),
        ("zone Gt 3", False),
        ("gen Gt many", False),
        ("zone Like z1", False),
    ],
)
def test_line(line: str, matches: bool) -> None:
    """Each operator matches as in Kubernetes; an unknown or invalid one matches nothing."""
    assert ("" if matches else MISMATCH) == rejection(NodeAffinity(), pod("web", required=[term(line)]), NODE)


@pytest.mark.parametrize(
    ("required", "matches"),
    [
        ([], False),
        ([term()], False),
        ([term("zone In z2"), term("gen In 4")], True),
        ([term("zone In z1", "gen In 5")], False),
        ([term("zone In z1", fields=["metadata.name In a"])], True),
        ([term(fields=["metadata.name NotIn a"])], False),
        ([term("zone Exists values")], False),
    ],
)
def test_terms(required: list[NodeSelectorTerm], matches: bool) -> None:
    """Terms are or-ed, lines of a term and-ed; no terms at all, or an empty one, match nothing."""
    assert ("" if matches else MISMATCH) == rejection(NodeAffinity(), pod("web", required=required), NODE)


def test_selector_and_affinity() -> None:
    """Selector, affinity and the profile's added affinity must all match; the latter is reported first."""
    plugin = NodeAffinity(Wishes(required=(term("gen Exists"),)))
    wanted = pod("web", selector={"zone": "z1"}, required=[term("disk In ssd")])
    labels = {"zone": "z1", "disk": "ssd", "gen": "1"}
    seen = [
        node("all", labels=labels),
        node("zone", labels=labels | {"zone": "z2"}),
        node("disk", labels=labels | {"disk": "hdd"}),
        node("gen", labels={"zone": "z2"}),
    ]
    assert {"all": "", "zone": MISMATCH, "disk": MISMATCH, "gen": ENFORCED} == rejections(plugin, wanted, *seen)


@pytest.mark.parametrize(
    ("required", "expected"),
    [
        (None, PreFilterStatus.SKIP),
        ([term("zone Exists")], PreFilterStatus.SUCCESS),
        ([term(fields=["metadata.name In a"])], NodeSubset(frozenset({"a"}))),
        ([term(fields=["metadata.name In a"]), term(fields=["metadata.name In b"])], NodeSubset(frozenset({"a", "b"}))),
        ([term(fields=["metadata.name In a"]), term("zone Exists")], PreFilterStatus.SUCCESS),
        ([term(fields=["metadata.name In a", "metadata.name In b"])], Reject("pod affinity terms conflict")),
    ],
)
def test_prefilter(required: list[NodeSelectorTerm] | None, expected: object) -> None:
    """Terms that all name nodes leave only those; names that exclude each other leave none."""
    assert expected == NodeAffinity().pre_filter(cluster(NODE).view, pod("web", required=required))


@pytest.mark.parametrize(
    ("own", "added", "raw", "normal"),
    [
        (None, None, None, None),
        ([], None, {"a": 0, "b": 0}, {"a": 0, "b": 0}),
        ([prefers(20, "zone In z1"), prefers(30, "zone Exists")], None, {"a": 50, "b": 30}, {"a": 100, "b": 60}),
        ([prefers(20, "zone In z1"), prefers(99)], None, {"a": 20, "b": 0}, {"a": 100, "b": 0}),
        ([prefers(20, "zone In z1")], [prefers(60, "zone In z2")], {"a": 20, "b": 60}, {"a": 33, "b": 100}),
        (None, [prefers(5, "zone In z2")], {"a": 0, "b": 5}, {"a": 0, "b": 100}),
    ],
)
def test_score(
    own: list[PreferredSchedulingTerm] | None,
    added: list[PreferredSchedulingTerm] | None,
    raw: dict[str, int] | None,
    normal: dict[str, int] | None,
) -> None:
    """Weights of matching preferences are summed, the pod's and the profile's, and scaled by the highest sum."""
    plugin = NodeAffinity(Wishes(preferred=tuple(added)) if added else None)
    seen = [node("a", labels={"zone": "z1"}), node("b", labels={"zone": "z2"})]
    assert raw == raw_scores(plugin, pod("web", preferred=own), *seen)
    assert normal == scores(plugin, pod("web", preferred=own), *seen)


def test_unsound_argument() -> None:
    """A profile cannot enforce what Kubernetes would reject to read."""
    with pytest.raises(ValueError, match="addedAffinity"):
        NodeAffinity(Wishes(required=(term("zone Like z1"),)))

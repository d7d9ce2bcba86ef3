"""What QuietNodes rejects and prefers, and that it keeps Trimtab's laws on random clusters."""

from hypothesis import given
from hypothesis import strategies as st
from quiet_nodes import QuietNodes

from trimtab.core.cluster.cluster import Cluster
from trimtab.core.framework.choose import choose
from trimtab.core.framework.evaluation_cache import EvaluationCache
from trimtab.core.framework.profile import multipoint
from trimtab.laws import LAWS, cached_equals_fresh, signature_is_complete
from trimtab.plugin import ALL_ROWS, Node, Pod

MAINTENANCE = {"maintenance": "true"}
names = st.sampled_from("abcdef")
nodes = st.builds(Node, names, labels=st.sampled_from([{}, MAINTENANCE, {"maintenance": "false"}, {"zone": "z"}]))
placed = st.builds(Pod, st.uuids().map(str), st.just("default"), names, node=names)
clusters = st.tuples(st.lists(nodes, max_size=6), st.lists(placed, max_size=9))


def cluster(nodes: list[Node], pods: list[Pod]) -> Cluster:
    cluster = Cluster()
    for node in nodes:
        cluster.upsert_node(node)
    for pod in pods:
        cluster.upsert_pod(pod)
    return cluster


def waiting(name: str = "web") -> Pod:
    return Pod(f"uid-{name}", "default", name)


def test_results() -> None:
    """Nodes under maintenance are rejected with a reason, and of the others the one with fewer pods wins."""
    held = cluster([Node("a", labels=MAINTENANCE), Node("b"), Node("c")], [Pod("u", "default", "p", node="b")])
    plugin = QuietNodes()
    assert [-1, 0, 0] == plugin.filter(held.view, waiting(), ALL_ROWS).tolist()
    assert ("node(s) were under maintenance",) == plugin.reasons(held.view, waiting(), -1)
    assert "c" == choose(held.view, waiting(), multipoint("quiet", [(plugin, 1)])).node  # type: ignore[union-attr]


def test_another_key() -> None:
    """The label's key is an argument."""
    held = cluster([Node("a", labels=MAINTENANCE), Node("b", labels={"closed": "true"})], [])
    assert [0, -1] == QuietNodes(key="closed").filter(held.view, waiting(), ALL_ROWS).tolist()


@given(clusters)
def test_laws(content: tuple[list[Node], list[Pod]]) -> None:
    """The plugin breaks no law, and pods with equal signatures get equal results."""
    view = cluster(*content).view
    for law in LAWS:
        assert [] == list(law(QuietNodes(), view, waiting()))
    assert [] == list(signature_is_complete(QuietNodes(), view, waiting(), waiting("other")))


@given(clusters, st.lists(nodes | placed, max_size=6))
def test_cached_equals_fresh(content: tuple[list[Node], list[Pod]], changes: list[Node | Pod]) -> None:
    """Cached results equal fresh ones while the cluster changes: `depends_on` is complete."""
    held, cache, profile = cluster(*content), EvaluationCache(), multipoint("quiet", [(QuietNodes(), 1)])
    assert [] == list(cached_equals_fresh(held, waiting(), profile, cache))
    for number, change in enumerate(changes, start=1):
        held.upsert_node(change) if isinstance(change, Node) else held.upsert_pod(change)
        assert [] == list(cached_equals_fresh(held, waiting(f"w{number}"), profile, cache))

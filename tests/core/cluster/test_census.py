"""Shows that counts stay true whenever they were first asked for; laws over random clusters are elsewhere."""

from tests.build import cluster, node, pod
from trimtab.core.cluster.topology.picks import Pick
from trimtab.core.model.selectors import LabelSelector

ZONE = "topology.kubernetes.io/zone"


def test_the_first_pod_of_all_is_counted() -> None:
    """A count that was asked for while no pod stood anywhere has, by row and by domain, the pods that came since."""
    held = cluster(node("a", labels={ZONE: "one"}), node("b", labels={ZONE: "one"}), node("c", labels={ZONE: "two"}))
    census = held.view.census
    count = census.picked((Pick(None, LabelSelector()),))
    domains = count.by(census.key(ZONE))
    assert [0.0, 0.0, 0.0] == domains.at(slice(None)).tolist()

    held.assume(pod("first"), "b")

    assert [0.0, 1.0, 0.0] == census.current(count).rows.tolist()
    assert [1.0, 1.0, 0.0] == domains.at(slice(None)).tolist()

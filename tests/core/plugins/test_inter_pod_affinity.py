"""What InterPodAffinity rejects and prefers; conformance covers the rest."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.build import cluster, node, pod
from tests.core.plugins.affinity_builders import HOSTNAME, ZONE, far, host, label_selector, near
from tests.core.plugins.ask_plugin import PASSES, rejections, scores
from trimtab.core.framework.interface import ALL_ROWS, PreFilterStatus, Reject
from trimtab.core.model.affinity import PodAffinityTerm
from trimtab.core.model.objects import Namespace
from trimtab.core.model.pod import Pod
from trimtab.core.plugins.inter_pod_affinity import InterPodAffinity

NOT_NEAR = "! node(s) didn't match pod affinity rules"
NOT_FAR = "node(s) didn't match pod anti-affinity rules"
KEPT_OFF = "node(s) didn't satisfy existing pods anti-affinity rules"

NODES = (host("a", "one"), host("b", "one"), host("c", "two"), node("bare"))
WEB, DB = {"app": "web"}, {"app": "db"}
TO_DB = PodAffinityTerm(ZONE, label_selector(app="db"))
TO_WEB = PodAffinityTerm(ZONE, label_selector(app="web"))
HERE = replace(TO_WEB, topology_key=HOSTNAME)
BLUE = Namespace(name="blue", uid="1", labels={"team": "blue"})


def web(name: str, on: str = "", namespace: str = "default") -> Pod:
    return pod(name, on=on, labels=WEB, namespace=namespace)


def db(name: str, on: str = "", namespace: str = "default") -> Pod:
    return pod(name, on=on, labels=DB, namespace=namespace)


def told(new: Pod, *standing: Pod | Namespace) -> list[str]:
    """The result for a and b in one zone, c in another, and a node without labels."""
    return [*rejections(InterPodAffinity(), new, *NODES, *standing).values()]


@pytest.mark.parametrize(
    ("new", "standing", "expected"),
    [
        (near(web("new"), TO_DB), [db("d", "a")], [PASSES, PASSES, NOT_NEAR, NOT_NEAR]),
        (near(web("new"), TO_DB), [db("d", "bare")], [NOT_NEAR] * 4),
        (near(web("new"), TO_DB), [], [NOT_NEAR] * 4),
        # the first of a group that wants to be together goes wherever the labels are
        (near(web("new"), TO_WEB), [], [PASSES, PASSES, PASSES, NOT_NEAR]),
        (near(web("new"), TO_WEB), [web("w", "c")], [NOT_NEAR, NOT_NEAR, PASSES, NOT_NEAR]),
        # one pod must be picked by all terms
        (near(web("new"), TO_DB, TO_WEB), [db("d", "a"), web("w", "a")], [NOT_NEAR] * 4),
        # being deleted is still being there
        (near(web("new"), TO_DB), [replace(db("d", "c"), terminating=True)], [NOT_NEAR, NOT_NEAR, PASSES, NOT_NEAR]),
        (far(web("new"), HERE), [web("w", "a")], [NOT_FAR, PASSES, PASSES, PASSES]),
        (far(web("new"), TO_WEB), [web("w", "a")], [NOT_FAR, NOT_FAR, PASSES, PASSES]),
        # those that stand keep the new one off, too, and the new one's own rules are told first
        (web("new"), [far(db("d", "a"), TO_WEB)], [KEPT_OFF, KEPT_OFF, PASSES, PASSES]),
        (far(web("new"), HERE), [far(web("w", "a"), TO_WEB)], [NOT_FAR, KEPT_OFF, PASSES, PASSES]),
        (near(far(web("new"), HERE), TO_DB), [web("w", "a"), db("d", "b")], [NOT_FAR, PASSES, NOT_NEAR, NOT_NEAR]),
        # no selector picks nobody, an empty one everybody
        (far(web("new"), PodAffinityTerm(ZONE)), [db("d", "a")], [PASSES] * 4),
        (far(web("new"), PodAffinityTerm(ZONE, label_selector())), [db("d", "a")], [NOT_FAR, NOT_FAR, PASSES, PASSES]),
    ],
)
def test_required(new: Pod, standing: list[Pod], expected: list[str]) -> None:
    """Near is where others of the domain are picked, far is where none are, and both sides have a say."""
    assert expected == told(new, *standing)


@pytest.mark.parametrize(
    ("term", "expected"),
    [
        (HERE, PASSES),
        (replace(HERE, namespaces=("blue",)), NOT_FAR),
        (replace(HERE, namespace_selector=label_selector()), NOT_FAR),
        (replace(HERE, namespace_selector=label_selector(team="blue")), NOT_FAR),
        (replace(HERE, namespace_selector=label_selector(team="red")), PASSES),
        (replace(HERE, namespaces=("blue",), namespace_selector=label_selector(team="red")), NOT_FAR),
    ],
)
def test_namespaces(term: PodAffinityTerm, expected: str) -> None:
    """A term is about the pod's own namespace unless it names others, or selects them by their labels."""
    assert expected == told(far(web("new"), term), web("w", "a", namespace="blue"), BLUE)[0]
    standing = far(web("w", "a"), term)
    kept_off = KEPT_OFF if expected else PASSES
    assert kept_off == told(web("new", namespace="blue"), standing, BLUE)[0]


def test_a_namespace_gets_another_label() -> None:
    """Which namespaces are selected is looked up anew once they have changed."""
    held = cluster(*NODES, web("w", "a", namespace="blue"), BLUE)
    new = far(web("new"), replace(HERE, namespace_selector=label_selector(team="blue")))
    assert [1, 0, 0, 0] == InterPodAffinity().filter(held.view, new, ALL_ROWS).tolist()
    held.upsert_object(replace(BLUE, labels={}, version=2))
    assert [0, 0, 0, 0] == InterPodAffinity().filter(held.view, new, ALL_ROWS).tolist()


def test_nothing_to_judge() -> None:
    """A pod without terms that no existing pod's term matches is skipped."""
    held = cluster(*NODES, far(db("d", "a"), TO_DB))
    assert PreFilterStatus.SKIP is InterPodAffinity().pre_filter(held.view, web("new"))
    assert None is InterPodAffinity().score(held.view, web("new"), ALL_ROWS)
    assert PreFilterStatus.SUCCESS is InterPodAffinity().pre_filter(held.view, db("new"))
    held.delete_pod("uid-d")
    assert PreFilterStatus.SKIP is InterPodAffinity().pre_filter(held.view, db("new"))


@pytest.mark.parametrize(
    ("new", "standing", "expected"),
    [
        (near(web("new"), prefers=((5, TO_DB),)), [db("d", "a")], [100, 100, 0, 0]),
        (far(web("new"), prefers=((5, TO_DB),)), [db("d", "a")], [0, 0, 100, 100]),
        (
            near(web("new"), prefers=((60, TO_DB), (40, replace(TO_DB, topology_key=HOSTNAME)))),
            [db("d", "a")],
            [100, 60, 0, 0],
        ),
        # what those that stand wish for, and what they must have, counts as well
        (web("new"), [near(db("d", "c"), prefers=((5, TO_WEB),))], [0, 0, 100, 0]),
        (web("new"), [far(db("d", "c"), prefers=((5, TO_WEB),))], [100, 100, 0, 100]),
        (web("new"), [near(db("d", "c"), TO_WEB)], [0, 0, 100, 0]),
        # an opinion that cancels out is still one
        (
            web("new"),
            [near(db("d", "c"), prefers=((5, TO_WEB),)), far(db("e", "c"), prefers=((5, TO_WEB),))],
            [0, 0, 0, 0],
        ),
    ],
)
def test_preferred(new: Pod, standing: list[Pod], expected: list[int]) -> None:
    """Weights of all matching pods in a node's domains are summed, and scaled from the lowest to the highest."""
    found = scores(InterPodAffinity(), new, *NODES, *standing)
    assert found is not None
    assert expected == [*found.values()]


def test_arguments() -> None:
    """A weight of 0 leaves required affinity of others out of scores; their preferences can be ignored, too."""
    held = cluster(*NODES, near(db("d", "c"), TO_WEB)).view
    assert None is InterPodAffinity(hard_pod_affinity_weight=0).score(held, web("new"), ALL_ROWS)
    lazy = InterPodAffinity(ignore_preferred_terms_of_existing_pods=True)
    assert None is lazy.score(held, web("new"), ALL_ROWS)
    assert [0, 0, 7, 0] == InterPodAffinity(7).score(held, web("new"), ALL_ROWS).tolist()  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="between 0 and 100"):
        InterPodAffinity(101)


def test_malformed_terms() -> None:
    """A pod with an invalid selector is rejected with the list named; in an existing pod it is ignored."""
    broken = far(web("new"), replace(HERE, selector=label_selector("app Like web")))
    held = cluster(*NODES, replace(broken, uid="other", node="a", phase="Running"))
    assert Reject(
        'parsing pod: requiredAntiAffinityTerms: "Like" is not a valid label selector operator'
    ) == InterPodAffinity().pre_filter(held.view, broken)
    assert PreFilterStatus.SKIP is InterPodAffinity().pre_filter(held.view, web("new"))
    assert 1 == held.pod_table.affinity_terms.invalid_lists

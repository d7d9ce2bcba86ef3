"""Hypothesis strategies for affinity between pods, spread constraints, and objects that select pods.

Keys, selectors and names come from a few values each, so that they match: nodes and pods share labels. A pod's
namespace never changes, so it depends on the pod's name.
"""

from __future__ import annotations

from itertools import product, repeat
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from tests.build import requirement
from trimtab.core.model.affinity import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from trimtab.core.model.objects import Namespace, Object, ReplicaSet, Service
from trimtab.core.model.pod import Owner, Pod
from trimtab.core.model.selectors import LabelSelector

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
KEYS = (HOSTNAME, ZONE, "zone", "disk")
ELSEWHERE = ("p6", "p7")
OWNER = Owner("ReplicaSet", "set", "uid-set", "apps/v1")
SELECTORS = (
    None,
    LabelSelector(),
    LabelSelector((("zone", "z1"),)),
    LabelSelector((("disk", "ssd"),)),
    LabelSelector((), (requirement("zone In z1,z2"),)),
    LabelSelector((), (requirement("gen NotIn 1,4"),)),
    LabelSelector((("disk", "ssd"),), (requirement("gen Exists"),)),
)
INVALID = LabelSelector((), (requirement("zone Like z1"),))
SPACES = (
    None,
    None,
    LabelSelector(),
    LabelSelector((("team", "blue"),)),
    LabelSelector((), (requirement("team Exists"),)),
)

# Made beforehand, so that drawing one costs one number.
TERMS = tuple(
    PodAffinityTerm(key, selector, namespaces, spaces)
    for key, selector, (namespaces, spaces) in product(
        KEYS, (*SELECTORS, INVALID), (*zip(repeat(()), SPACES), (("other",), None), (("default",), SPACES[-1]))
    )
)
SPREADS = tuple(
    TopologySpreadConstraint(key, skew, hard, selector, least, *policies, keys)
    for key, hard, selector, (skew, least, policies, keys) in product(
        KEYS,
        (True, False),
        (*SELECTORS, INVALID),
        (
            (1, None, ("Honor", "Ignore"), ()),
            (2, 3, ("Ignore", "Honor"), ()),
            (1, 1, ("Honor", "Honor"), ("gen",)),
        ),
    )
)
some_terms = st.lists(st.sampled_from(TERMS), max_size=2).map(tuple)
affinities = st.builds(
    PodAffinity,
    required=some_terms,
    preferred=some_terms.map(
        lambda terms: tuple(WeightedPodAffinityTerm(7 * len(each.topology_key), each) for each in terms)
    ),
)


@st.composite
def with_affinity(draw: Any, pod: Pod) -> Pod:
    """The same pod with an opinion on others, now and then."""
    spec, opinion = pod.spec, draw(st.integers(0, 5))
    if opinion in (4, 5):
        spec = replace(spec, topology_spread=tuple(draw(st.lists(st.sampled_from(SPREADS), min_size=1, max_size=2))))
    if opinion in (3, 4):
        held = spec.affinity or Affinity()
        spec = replace(spec, affinity=replace(held, pod_affinity=draw(affinities), pod_anti_affinity=draw(affinities)))
    namespace = "other" if pod.name in ELSEWHERE else "default"
    owner, deleting = draw(st.sampled_from(((None, False), (OWNER, False), (OWNER, True))))
    return replace(pod, spec=spec, namespace=namespace, owner=owner, terminating=deleting)


@st.composite
def selector_owners(draw: Any) -> Object:
    """A namespace with labels, or something that selects pods."""
    space, selector = draw(st.sampled_from(("default", "other"))), draw(st.sampled_from(SELECTORS))
    labels = draw(st.sampled_from(({}, {"team": "blue"}, {"team": "red"})))
    pairs = selector and LabelSelector(selector.match_labels)
    found: Object = draw(
        st.sampled_from(
            (
                Namespace(name=space, uid=f"uid-{space}", labels=labels),
                Service(name="web", uid="uid-web", namespace=space, selector=pairs),
                ReplicaSet(name="set", uid="uid-set", namespace=space, selector=selector),
            )
        )
    )
    return found

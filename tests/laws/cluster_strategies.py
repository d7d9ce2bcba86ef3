"""Hypothesis strategies for nodes, pods, clusters and changes of clusters.

Names, labels and amounts come from a few values each, so that they coincide: equal taints, ports in use, full nodes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from tests.build import MIB, asks, cluster, node, pod, prefers, term
from tests.laws.affinity_strategies import HOSTNAME, ZONE, selector_owners, with_affinity
from tests.laws.sample_strategies import SOURCES, WHOLE, moment, readings
from tests.laws.storage_strategies import VOLUMES, storage
from trimtab.core.cluster.cluster import Cluster
from trimtab.core.model.affinity import PreferredSchedulingTerm
from trimtab.core.model.node import Image, Node
from trimtab.core.model.objects import Object
from trimtab.core.model.pod import HostPort, Pod
from trimtab.core.model.readings import Reading, Unit
from trimtab.core.model.resources import ContainerRequests, PodRequests, pod_requests
from trimtab.core.model.selectors import NodeSelectorTerm
from trimtab.core.plugins.gpu_share.devices import GPU_COUNT, GPU_MILLI
from trimtab.core.plugins.load_aware_scheduling.node_thresholds import ANNOTATION
from trimtab.wire.quantity import nanos

NAMES = tuple("abcdefgh")
PODS = tuple(f"p{number}" for number in range(8))
# The last ones are more than 64 bits of thousandths can hold.
CPUS = ("0", "100m", "500m", "1", "2", "4", "7Ei", "12E", "1e100")
MEMORIES = ("0", "64Mi", "1Gi", "4Gi", "8Gi", "8Ei")
DEVICES = ("nvidia.com/gpu", "example.com/foo", "hugepages-2Mi", GPU_COUNT, GPU_MILLI)
TAINTS = ("gpu=yes:NoSchedule", "gpu=no:NoExecute", "spot=:PreferNoSchedule", "old=1:PreferNoSchedule")
TOLERATIONS = ("", "gpu=yes:NoSchedule", "gpu", "spot:PreferNoSchedule", ":PreferNoSchedule", "old=1")
IMAGES = ("app:latest", "db:v1", "registry.example/web:latest")
WISHED_IMAGES = ("app", "db:v1", "registry.example/web", "unknown")
LINES = (
    "zone In z1",
    "zone NotIn z1,z2",
    "zone Exists",
    "disk DoesNotExist",
    "gen Gt 3",
    "gen Lt 5",
    "gen Gt x",
    "zone Like z1",
)

# What nodes say of themselves by Koordinator's annotation; most say nothing.
OWN_THRESHOLDS = (
    *("",) * 4,
    '{"usageThresholds": {"cpu": 30}}',
    '{"prodUsageThresholds": {"cpu": 20, "memory": 50}}',
    '{"usageThresholds": {"cpu": 50, "memory": 50}, "aggregatedUsage": {"usageThresholds": {"cpu": 40, "memory": 40}, '
    '"usageAggregationType": "p95", "usageAggregatedDuration": "5m"}}',
)
CLASSES = ("koord-prod", "koord-batch", "odd")

maybe = st.booleans()


def some_of(values: tuple[str, ...], most: int = 2) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), max_size=most, unique=True)


labels = st.fixed_dictionaries(
    {},
    optional={
        "zone": st.sampled_from(("z1", "z2", "")),
        "disk": st.just("ssd"),
        "gen": st.sampled_from(("1", "4", "13", "x")),
    },
)
classes = st.fixed_dictionaries(
    {},
    optional={
        "koordinator.sh/priority-class": st.sampled_from(CLASSES),
        "koordinator.sh/qosClass": st.sampled_from(("LS", "BE", "odd")),
    },
)
places = st.fixed_dictionaries({}, optional={ZONE: st.sampled_from(("z1", "z2", ""))})
devices = st.dictionaries(st.sampled_from(DEVICES), st.sampled_from(("0", "1", "4", "700")), max_size=2)
bounds = st.fixed_dictionaries({}, optional={"cpu": st.sampled_from(CPUS), "memory": st.sampled_from(MEMORIES)})
ports = st.builds(
    HostPort,
    st.sampled_from(("TCP", "UDP")),
    st.sampled_from(("0.0.0.0", "10.0.0.1", "10.0.0.2")),
    st.sampled_from((80, 443)),
)
terms: st.SearchStrategy[NodeSelectorTerm] = st.builds(
    lambda lines, named: term(*lines, fields=[f"metadata.name In {each}" for each in named]),
    some_of(LINES),
    some_of(NAMES, most=1),
)
wishes: st.SearchStrategy[PreferredSchedulingTerm] = st.builds(
    lambda weight, lines: prefers(weight, *lines), st.integers(0, 100), some_of(LINES)
)


@st.composite
def nodes(draw: Any, name: str | None = None) -> Node:
    name = name or draw(st.sampled_from(NAMES))
    host = {} if draw(st.integers(0, 7)) == 7 else {HOSTNAME: name}
    made = node(
        name,
        cpu=draw(st.sampled_from(CPUS)),
        memory=draw(st.sampled_from(MEMORIES)),
        pods=draw(st.sampled_from(("0", "2", "110"))),
        extra=draw(devices),
        labels=draw(labels) | draw(places) | host,
        taints=draw(some_of(TAINTS)),
        unschedulable=draw(st.sampled_from((False, False, False, True))),
    )
    sizes = draw(st.dictionaries(st.sampled_from(IMAGES), st.integers(0, 3000), max_size=2))
    images = tuple(Image((each,), size * MIB) for each, size in sizes.items())
    thresholds = draw(st.sampled_from(OWN_THRESHOLDS))
    return replace(made, images=images, annotations={ANNOTATION: thresholds} if thresholds else {})


@st.composite
def demands(draw: Any) -> PodRequests:
    """A pod's requests: mostly small, sometimes with limits, with sidecars, at pod level, or far too large."""
    plain = asks(
        cpu=draw(st.sampled_from(("", "", *CPUS))),
        memory=draw(st.sampled_from(("", "", *MEMORIES))),
        extra=draw(devices),
    )
    if not draw(st.sampled_from((False, False, True))):
        return plain
    limits = {name: nanos(each) for name, each in draw(bounds).items()}
    asked = ContainerRequests({"cpu": nanos(draw(st.sampled_from(CPUS)))}, limits)
    whole = ContainerRequests({"memory": nanos(draw(st.sampled_from(MEMORIES)))}) if draw(maybe) else None
    return pod_requests(
        [asked, ContainerRequests()], [ContainerRequests({"cpu": nanos("1")}, sidecar=draw(maybe))], whole
    )


@st.composite
def pods(draw: Any, name: str | None = None, on: str = "") -> Pod:
    selector = draw(st.none() | st.fixed_dictionaries({}, optional={"zone": st.sampled_from(("z1", "z2"))}))
    name = name or draw(st.sampled_from(PODS))
    alone = pod(
        name,
        volumes=VOLUMES.get(name, ()),
        requests=draw(demands()),
        on=on,
        priority=draw(st.sampled_from((-10, 0, 0, 1000, 5500, 9500))),
        labels=draw(labels) | draw(classes),
        selector=selector,
        required=draw(st.none() | st.lists(terms, max_size=2)),
        preferred=draw(st.none() | st.lists(wishes, max_size=3)),
        tolerations=draw(some_of(TOLERATIONS)),
        ports=draw(st.lists(ports, max_size=2)),
        images=draw(st.lists(st.sampled_from(WISHED_IMAGES), max_size=3)),
        gates=draw(some_of(("first", "second"))),
    )
    made: Pod = draw(with_affinity(alone))
    return made


@st.composite
def clusters(draw: Any) -> Cluster:
    """Up to eight nodes with pods, some of them on unknown nodes, other objects, and some load."""
    made = draw(st.lists(nodes(), unique_by=lambda each: each.name, max_size=len(NAMES)))
    names = draw(st.lists(st.sampled_from(PODS), unique=True))
    standing = [draw(pods(name, draw(st.sampled_from(NAMES)))) for name in names]
    held = cluster(*made, *standing, *draw(st.lists(storage(NAMES) | selector_owners(), max_size=6)))
    for lap in (-1, 0):
        held.ingest_samples(draw(readings(NAMES, PODS, moment(lap))), moment(lap))
    return held


# --- what may happen to a cluster

Step = Callable[[Cluster, int], None]


@st.composite
def steps(draw: Any) -> Step:
    """One change; it is given the number of the step, so that what it brings is newer than what was there."""
    name, uid = draw(st.sampled_from(NAMES)), f"uid-{draw(st.sampled_from(PODS))}"
    brought_node, brought_pod, stored = draw(nodes(name)), draw(pods()), draw(storage(NAMES) | selector_owners())
    times = draw(st.sampled_from((0.25, 0.5, 2.0, 4.0)))
    scrape, source = draw(readings(NAMES, PODS, moment(0))), draw(st.sampled_from(SOURCES))
    ways: tuple[Step, ...] = (
        lambda held, at: _see_node(held, replace(brought_node, version=at)),
        lambda held, at: _see_node(held, replace(brought_node, version=at, uid=str(at))),
        lambda held, at: _relabel(held, brought_node, at),
        lambda held, at: resize(held, times, at),
        lambda held, at: measure_all(held, at),
        lambda held, at: _lose_node(held, name),
        lambda held, at: _see_pod(held, replace(brought_pod, version=at, node=name)),
        lambda held, at: _see_pod(held, replace(brought_pod, version=at, node=name, phase="Succeeded")),
        lambda held, at: _see_pod(held, replace(brought_pod, version=at, nominated_node=name)),
        lambda held, at: _lose_pod(held, uid),
        lambda held, at: _assume(held, replace(brought_pod, version=at), name),
        lambda held, at: _forget(held, uid),
        lambda held, at: _see_object(held, replace(stored, version=at)),
        lambda held, at: _lose_object(held, stored),
        lambda held, at: _read_load(held, scrape, at),
        lambda held, at: _fail(held, source, at),
        lambda held, at: held.age_load(moment(at)),
    )
    step: Step = draw(st.sampled_from(ways))
    return step


def _see_node(held: Cluster, brought: Node) -> None:
    held.upsert_node(brought)


def _relabel(held: Cluster, brought: Node, at: int) -> None:
    """The likeliest change of all: one thing about a node that is there."""
    row = held.node_table.row.get(brought.name)
    if row is not None:
        held.upsert_node(replace(held.node_table.nodes[row], labels=brought.labels, images=brought.images, version=at))


def resize(held: Cluster, times: float, at: int) -> None:
    """One measured node: its usage stays, and becomes another share of the node. If there is none, all are measured."""
    trusted = held.view.load.trust("cpu")[: held.view.count] * held.view.load.trust("memory")[: held.view.count]
    measured = [each for each, trust in zip(held.node_table.nodes, trusted.tolist(), strict=True) if trust > 0]
    if measured:
        one = measured[at % len(measured)]
        room = tuple((name, int(amount * times) if name in WHOLE else amount) for name, amount in one.allocatable)
        held.upsert_node(replace(one, allocatable=room, version=at))
    else:
        measure_all(held, at)


def measure_all(held: Cluster, at: int) -> None:
    held.ingest_samples(tuple(_usage_of_all(held, resource, moment(at)) for resource in ("cpu", "memory")), moment(at))


def _usage_of_all(held: Cluster, resource: str, at: float) -> Reading:
    """Half of each node's capacity."""
    names = tuple(each.name for each in held.node_table.nodes)
    return Reading(SOURCES[0], resource, names, (0.5,) * len(names), (at,) * len(names), unit=Unit.FRACTION)


def _lose_node(held: Cluster, name: str) -> None:
    held.delete_node(name)


def _see_pod(held: Cluster, brought: Pod) -> None:
    if held.is_newer(brought):
        held.upsert_pod(brought)


def _lose_pod(held: Cluster, uid: str) -> None:
    held.delete_pod(uid)
    held.tombstones.clear()  # names are few here: the next pod of this name is another one


def _assume(held: Cluster, brought: Pod, name: str) -> None:
    """As the engine does it: a known pod without a node is assumed on an existing node."""
    if held.is_newer(brought) and brought.uid not in held.placements and name in held.node_table.row:
        held.upsert_pod(brought)
        held.assume(brought, name)


def _forget(held: Cluster, uid: str) -> None:
    held.forget(uid)


def _see_object(held: Cluster, brought: Object) -> None:
    held.upsert_object(brought)


def _lose_object(held: Cluster, lost: Object) -> None:
    held.delete_object(lost.kind, lost.key)


def _read_load(held: Cluster, scrape: tuple[Reading, ...], at: int) -> None:
    """As old as it was drawn, at the time of this step."""
    later = moment(at) - moment(0)
    moved = (replace(each, measured=tuple(measured + later for measured in each.measured)) for each in scrape)
    held.ingest_samples(tuple(moved), moment(at))


def _fail(held: Cluster, source: str, at: int) -> None:
    held.discard_source(source, moment(at))

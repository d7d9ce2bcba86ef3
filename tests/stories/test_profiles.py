"""Several profiles in one process: each pod is scheduled by its own, on one cluster and with one queue."""

from collections.abc import Iterable

import pytest

from tests.build import node, pod
from trimtab.config.diagnostics import ConfigError
from trimtab.config.kube_scheduler import parse
from trimtab.core.engine import Engine
from trimtab.core.model.events import LeaseAcquired, NodeUpserted, PodUpserted, Synced, Turn
from trimtab.core.model.instructions import Bind
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod

ORDER = "queueSort: {disabled: [{name: '*'}], enabled: [{name: SmallestFirst}]}"
FILE = f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: packing
  plugins:
    {ORDER}
    score: {{disabled: [{{name: "*"}}], enabled: [{{name: NodeResourcesFit}}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: MostAllocated, resources: [{{name: cpu}}]}}}}
- schedulerName: spreading
  plugins:
    {ORDER}
    score: {{disabled: [{{name: "*"}}], enabled: [{{name: NodeResourcesFit}}]}}
- schedulerName: reserved
  plugins:
    {ORDER}
  pluginConfig:
  - name: NodeAffinity
    args:
      addedAffinity:
        requiredDuringSchedulingIgnoredDuringExecution:
          nodeSelectorTerms: [{{matchExpressions: [{{key: pool, operator: In, values: [reserved]}}]}}]
"""
NODES = (node("a", cpu="4"), node("b", cpu="4", labels={"pool": "reserved"}))


def engine(nodes: Iterable[Node] = NODES) -> Engine:
    """An engine with the file's profiles and nodes, synced and leading."""
    settings = parse(FILE, "scheduler.yaml").settings
    made = Engine(settings)
    for kind in settings.kinds:
        made.handle(Synced(kind, 0.0))
    made.handle(LeaseAcquired(1, 0.0))
    for number, each in enumerate(nodes, start=1):
        made.handle(NodeUpserted(each, float(number)))
    return made


def binds(made: Engine, *pods: Pod) -> list[tuple[str, str]]:
    """Pods and their nodes in the order of the decisions, if all of them arrive at once."""
    for each in pods:
        made.handle(PodUpserted(each, 10.0))
    return [(wish.name, wish.node) for wish in made.handle(Turn(10, 11.0)) if isinstance(wish, Bind)]


def test_each_pod_by_its_own_profile() -> None:
    """The same pod goes to the fuller node under one profile, to the emptier under another, to its pool under a third."""
    held = pod("held", cpu="1", on="a")
    for scheduler, expected in (("packing", "a"), ("spreading", "b"), ("reserved", "b")):
        made = engine()
        made.handle(PodUpserted(held, 5.0))
        assert [("web", expected)] == binds(made, pod("web", cpu="1", scheduler=scheduler))


def test_one_cluster() -> None:
    """A pod placed by one profile counts for the others at once, before the watch shows it."""
    first, second = pod("first", cpu="3", scheduler="reserved"), pod("second", cpu="3500m", scheduler="packing")
    assert [("first", "b"), ("second", "a")] == binds(engine(), first, second)
    assert [("first", "b")] == binds(engine(NODES[1:]), first, second)


def test_one_queue() -> None:
    """One order over all profiles: priority, then the small before the large."""
    large = pod("large", cpu="2", scheduler="packing")
    small = pod("small", cpu="100m", scheduler="spreading")
    urgent = pod("urgent", cpu="2", priority=5, scheduler="reserved")
    assert ["urgent", "small", "large"] == [name for name, _ in binds(engine(), large, small, urgent)]


def test_other_schedulers_pods_are_ignored() -> None:
    """A pod whose schedulerName is no profile here is not scheduled."""
    assert [] == binds(engine(), pod("web", scheduler="default-scheduler"))


def test_order_with_other_arguments() -> None:
    """One queue has one order: a profile with other arguments is rejected with its position in the file."""
    args = "\n  - name: SmallestFirst\n    args: {longestPenalty: 5}\n"
    with pytest.raises(ConfigError) as caught:
        parse(FILE.rstrip("\n") + args, "scheduler.yaml")
    line = FILE.splitlines().index("- schedulerName: reserved") + 1
    expected = "profiles[2].schedulerName: queueSort must be the same in all profiles: they share one queue"
    assert f"scheduler.yaml:{line}:18: {expected}" == str(caught.value)

"""The walk of a pod as drawn in ARCHITECTURE.md, from the bytes of a watch to the bound pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.build import assumed_on
from tests.core.engine_harness import instructions
from trimtab.config.registry import default_profile
from trimtab.core.engine import Engine
from trimtab.core.model.events import BindDone, Event, GetPodDone, LeaseAcquired, PodUpserted, Synced, Tick, Turn
from trimtab.core.model.instructions import Bind, EmitEvent, GetPod, Instruction, SetUnschedulable
from trimtab.core.model.node import Node
from trimtab.core.model.pod import Pod
from trimtab.core.model.resources import CPU
from trimtab.core.scheduling.controller import Scheduling
from trimtab.core.settings import Settings
from trimtab.kube import kinds
from trimtab.kube.store import Store
from trimtab.wire.node import NodeReader
from trimtab.wire.outcomes import Reply, bind_outcome, get_pod_outcome
from trimtab.wire.pod import PodReader
from trimtab.wire.requests import bind_request, event_request, get_pod_request, pod_status_request
from trimtab.wire.watch import decode_list, decode_watch_event

OURS = "trimtab"
CREATED = b'{"kind":"Status","apiVersion":"v1","status":"Success","code":201}'


def pod_object(version: int, *, name: str = "web", cpu: str = "500m", node: str = "", uid: str = "") -> dict[str, Any]:
    """A pod as the API server sends it, with unneeded fields."""
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "kubectl"}],
        },
        "spec": {
            "schedulerName": OURS,
            "containers": [{"name": "app", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }


def node_object(version: int, name: str, cpu: str = "1") -> dict[str, Any]:
    return {
        "kind": "Node",
        "apiVersion": "v1",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": str(version)},
        "spec": {},
        "status": {"allocatable": {"cpu": cpu, "memory": "1Gi", "pods": "110"}},
    }


class Pipeline:
    """All hops between the server's bytes and the engine, without any connection or clock."""

    def __init__(self) -> None:
        self.engine = Engine(Settings((default_profile(OURS),)))
        self.reader = PodReader()
        self.pods: Store[Pod] = Store(kinds.pod_kind(self.reader))
        self.nodes: Store[Node] = Store(kinds.node_kind(NodeReader()))
        self.at = 0.0

    def start(self, pods: list[dict[str, Any]], nodes: list[dict[str, Any]], version: int = 100) -> Pipeline:
        """List both kinds and acquire the lease."""
        for mirror, reader, items in ((self.pods, self.reader, pods), (self.nodes, NodeReader(), nodes)):
            kind = reader.kind
            body = {"kind": f"{kind}List", "metadata": {"resourceVersion": str(version)}, "items": items}
            listed = decode_list(msgspec.json.encode(body), reader)
            self.tell(*mirror.replace(listed, self.at))
        self.tell(*(Synced(kind, self.at) for kind in self.engine.state.settings.kinds), LeaseAcquired(1, self.at))
        return self

    def line(self, kind: str, item: dict[str, Any]) -> list[Instruction]:
        """Process one line of a watch, as bytes."""
        data = msgspec.json.encode({"type": kind, "object": item})
        if item["kind"] == "Pod":
            event = self.pods.apply(decode_watch_event(data, self.reader), self.at)
        else:
            event = self.nodes.apply(decode_watch_event(data, NodeReader()), self.at)
        return self.tell(event) if event is not None else []

    def tell(self, *events: Event) -> list[Instruction]:
        return [wish for event in events for wish in instructions(self.engine.handle(event))]

    def turn(self) -> list[Instruction]:
        return self.tell(Turn(10, self.at))

    def later(self, seconds: float) -> list[Instruction]:
        self.at += seconds
        return self.tell(Tick(self.at))

    def free(self) -> dict[str, int]:
        """Free millicores by node."""
        view = self.engine.cluster.view
        left = view.allocatable(CPU) - view.requested(CPU)
        return {node.name: int(left[row]) for row, node in enumerate(view.nodes)}


def test_a_pod_is_bound_hop_by_hop() -> None:
    """Watch line → pod → queue → turn → assumed → Bind → request → 201 → Scheduled Event → the watch confirms."""
    controller = Pipeline().start([], [node_object(1, "a"), node_object(2, "b", cpu="250m")])
    assert [] == controller.line("ADDED", pod_object(101))
    assert ("uid-web", 500) == (
        controller.engine.cluster.pods["uid-web"].uid,
        controller.engine.cluster.pods["uid-web"].requests.of(CPU),
    )
    [bind] = controller.turn()
    assert (Bind("uid-web", "default", "web", "a"), {"a": 500, "b": 250}) == (bind, controller.free())
    assert isinstance(bind, Bind)
    request = bind_request(bind)
    assert ("POST", "/api/v1/namespaces/default/pods/web/binding") == (request.method, request.path)
    assert {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"namespace": "default", "name": "web", "uid": "uid-web"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "a"},
    } == msgspec.json.decode(request.body)
    outcome = bind_outcome(bind, Reply(201, CREATED), 1.0)
    assert BindDone("uid-web", "a", 1.0) == outcome
    [tell] = controller.tell(outcome)
    assert isinstance(tell, EmitEvent)
    event = msgspec.json.decode(event_request(tell, "2026-01-01T00:00:01.000000Z", "web.1", "trimtab-0").body)
    assert ("Scheduled", "Binding", "Normal", OURS, "Successfully assigned default/web to a") == tuple(
        event[key] for key in ("reason", "action", "type", "reportingController", "note")
    )
    assert [] == controller.line("MODIFIED", pod_object(102, node="a"))
    scheduling = controller.engine.controller(Scheduling)
    assert (0, 0, None, {"a": 500, "b": 250}) == (
        len(scheduling.bindings),
        len(scheduling.queue),
        assumed_on(controller.engine.cluster, "uid-web"),
        controller.free(),
    )


def test_an_unschedulable_pod_says_why_and_is_bound_once_a_node_joins() -> None:
    """No node → unschedulable → Event and condition in kube-scheduler's words → a node is added → bound."""
    controller = Pipeline().start([pod_object(3, cpu="2")], [node_object(1, "a"), node_object(2, "b")])
    tell, mark = controller.turn()
    words = (
        "0/2 nodes are available: 2 Insufficient cpu. "
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    )
    assert isinstance(tell, EmitEvent) and isinstance(mark, SetUnschedulable)
    assert ("FailedScheduling", words, True) == (tell.reason, tell.note, tell.warning)
    request = pod_status_request(mark, None)
    assert ("PATCH", "/api/v1/namespaces/default/pods/web/status") == (request.method, request.path)
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": words}
    assert [condition] == msgspec.json.decode(request.body)["status"]["conditions"]
    patched = pod_object(101, cpu="2")
    patched["status"]["conditions"] = [condition]
    assert ([], []) == (controller.line("MODIFIED", patched), controller.turn())
    controller.at = 5.0
    assert [] == controller.line("ADDED", node_object(102, "c", cpu="4"))
    assert [Bind("uid-web", "default", "web", "c")] == controller.turn()


@pytest.mark.parametrize("really_bound", [True, False])
def test_a_bind_with_an_unknown_outcome_is_read_back_first(really_bound: bool) -> None:
    """No answer → still assumed → GET → bound: confirmed, with an Event; not bound, also by a second GET: bound again."""
    controller = Pipeline().start([pod_object(3)], [node_object(1, "a")])
    [bind] = controller.turn()
    assert isinstance(bind, Bind)
    [reread] = controller.tell(bind_outcome(bind, Reply(0), 1.0))
    assert (GetPod("uid-web", "default", "web"), {"a": 500}) == (reread, controller.free())
    assert isinstance(reread, GetPod)
    request = get_pod_request(reread)
    assert ("GET", "/api/v1/namespaces/default/pods/web", b"") == (request.method, request.path, request.body)
    body = msgspec.json.encode(pod_object(101, node="a") if really_bound else pod_object(3))
    told = controller.tell(get_pod_outcome(reread, Reply(200, body), 2.0, controller.reader))
    assert (["Scheduled"] if really_bound else []) == [each.reason for each in told if isinstance(each, EmitEvent)]
    assert {"a": 500} == controller.free()
    assert ([] if really_bound else [reread]) == controller.later(10.0)
    if not really_bound:
        assert [] == controller.tell(get_pod_outcome(reread, Reply(200, body), 12.0, controller.reader))
        assert {"a": 1000} == controller.free()
    assert [] == controller.later(10.0)
    assert ([] if really_bound else [Bind("uid-web", "default", "web", "a")]) == controller.turn()


def test_two_schedulers_of_the_same_pod_make_one_bind() -> None:
    """Another one is faster: 409 → GET → the pod counts on its node, and we neither write an Event nor retry."""
    controller = Pipeline().start([pod_object(3)], [node_object(1, "a"), node_object(2, "b", cpu="900m")])
    [bind] = controller.turn()
    assert isinstance(bind, Bind)
    conflict = b'{"kind":"Status","status":"Failure","reason":"Conflict","code":409,"message":"already assigned"}'
    [reread] = controller.tell(bind_outcome(bind, Reply(409, conflict), 1.0))
    assert isinstance(reread, GetPod)
    other = next(name for name in "ab" if name != bind.node)
    body = msgspec.json.encode(pod_object(101, node=other))
    assert [] == controller.tell(get_pod_outcome(reread, Reply(200, body), 2.0, controller.reader))
    assert [] == controller.line("MODIFIED", pod_object(101, node=other)) + controller.later(60.0) + controller.turn()
    expected = {"a": 500, "b": 900} if other == "a" else {"a": 1000, "b": 400}
    assert expected == controller.free()


def test_two_schedulers_that_share_nodes() -> None:
    """A pod bound by the other one takes the capacity that ours needs."""
    controller = Pipeline().start([pod_object(3, cpu="800m")], [node_object(1, "a")])
    foreign = pod_object(101, name="foreign", cpu="900m", node="a")
    foreign["spec"]["schedulerName"] = "default-scheduler"
    controller.line("ADDED", foreign)
    assert [] == [wish for wish in controller.turn() if isinstance(wish, Bind)]
    controller.at = 5.0
    controller.line("DELETED", {**foreign, "metadata": {**foreign["metadata"], "resourceVersion": "102"}})
    assert [Bind("uid-web", "default", "web", "a")] == controller.turn()


def test_a_replacement_of_the_same_name_is_another_pod() -> None:
    """The outcome is unknown, the pod is deleted and recreated: the GET has another UID, so the old pod is gone."""
    controller = Pipeline().start([pod_object(3)], [node_object(1, "a")])
    [bind] = controller.turn()
    assert isinstance(bind, Bind)
    [reread] = controller.tell(bind_outcome(bind, Reply(0), 1.0))
    assert isinstance(reread, GetPod)
    body = msgspec.json.encode(pod_object(105, uid="uid-second"))
    outcome = get_pod_outcome(reread, Reply(200, body), 2.0, controller.reader)
    assert GetPodDone("uid-web", None, 2.0) == outcome
    controller.tell(outcome)
    assert {"a": 1000} == controller.free()
    controller.line("ADDED", pod_object(105, uid="uid-second"))
    assert [Bind("uid-second", "default", "web", "a")] == controller.turn()


def test_a_restart_counts_what_was_bound_before() -> None:
    """A new engine counts the bound pods of the list, and schedules the pending ones."""
    before = Pipeline().start([pod_object(3), pod_object(4, name="api")], [node_object(1, "a")])
    assert {"web", "api"} == {bind.name for bind in before.turn() if isinstance(bind, Bind)}
    after = Pipeline().start(
        [pod_object(101, node="a"), pod_object(102, name="api", node="a"), pod_object(103, name="late", cpu="100m")],
        [node_object(1, "a")],
        version=103,
    )
    assert ({"a": 0}, {"a": 0}) == (before.free(), after.free())
    assert [] == [wish for wish in after.turn() if isinstance(wish, Bind)]
    assert [] == after.tell(PodUpserted(before.engine.cluster.pods["uid-web"], 1.0))
    assert {"a": 0} == after.free()

"""The unschedulable pods of the mixed workload, with the message expected for each.

Some are unschedulable from the start and arrive among the others; some only once all others are bound. None has a higher
priority than the pods in its way, except for those that show that priority does not help them.
"""

from collections.abc import Iterator
from typing import Any

from tests.live.mixed_workload.nodes import DEDICATED, POOL, ZONE
from tests.live.mixed_workload.schedulable import ON_MEADOW
from tests.live.mixed_workload.specs import (
    affinity_term,
    claim_volume,
    container_spec,
    expression,
    in_pool,
    make_pod,
    node_affinity,
    pod_affinity,
    pod_anti_affinity,
    spread_constraint,
    with_host_port,
)
from tests.live.mixed_workload.storage import ATTACHED
from tools.controlplane.client import Document

UnschedulablePod = tuple[Document, str]
LOWEST = "lowest"
TAINTED = "90 node(s) had untolerated taint(s)"
PORTS = "20 node(s) didn't have free ports for the requested pod ports"
UNEQUAL = "200 node(s) didn't match pod topology spread constraints"
IN_USE = "200 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use"


def _unschedulable(name: str, why: str, rank: str = LOWEST, /, **fields: Any) -> UnschedulablePod:
    return make_pod("never", name, priorityClassName=rank, **fields), why


def from_the_start() -> Iterator[UnschedulablePod]:
    """Unschedulable even in an empty cluster."""
    yield _unschedulable("large", "200 Insufficient cpu", cpu="100")
    sidecar = {**container_spec("9"), "name": "sidecar", "restartPolicy": "Always"}
    yield _unschedulable("escorted", "200 Insufficient cpu", initContainers=[sidecar], containers=[container_spec("9")])
    yield _unschedulable("counted", "200 Insufficient example.com/fpga", containers=[_asking_for("example.com/fpga")])
    tape = {"nodeSelector": {"disk": "tape"}}
    yield _unschedulable("selecting", "200 node(s) didn't match Pod's node affinity/selector", "urgent", **tape)
    nobody = node_affinity({"matchFields": [expression("metadata.name", "In", "nowhere")]})
    yield _unschedulable("named", "300 node(s) didn't satisfy plugin(s) [NodeAffinity]", "urgent", affinity=nobody)
    yield _unschedulable("barred", TAINTED, nodeSelector={POOL: "gpu"})
    few = [{"key": DEDICATED, "value": "edge", "effect": "NoSchedule"}]
    yield _unschedulable("half-barred", TAINTED, nodeSelector={POOL: "edge"}, tolerations=few)
    yield _unschedulable("cordoned", "10 node(s) were unschedulable", nodeSelector={POOL: "cordoned"})
    missing = pod_affinity(affinity_term(ZONE, {"kind": "missing"}))
    yield _unschedulable("following", "200 node(s) didn't match pod affinity rules", affinity=missing)
    planets = {"topologySpreadConstraints": [spread_constraint("example.com/planet", "never")]}
    yield _unschedulable("spread", f"{UNEQUAL} (missing required label)", **planets)
    yield _unschedulable("unclaimed", 'persistentvolumeclaim "nowhere" not found', volumes=claim_volume("nowhere"))
    yield _unschedulable(
        "huge", "200 node(s) didn't find available persistent volumes to bind", volumes=claim_volume("huge")
    )
    yield _unschedulable(
        "unanswered", "pod has unbound immediate PersistentVolumeClaims", volumes=claim_volume("unanswered")
    )


def _asking_for(resource: str) -> Document:
    amounts = {resource: "1"}
    return {**container_spec("40m"), "resources": {"requests": amounts, "limits": amounts}}


def after_the_others() -> Iterator[UnschedulablePod]:
    """Unschedulable because the others are there."""
    yield _unschedulable("ported", PORTS, containers=with_host_port(8000), **in_pool("edge"))
    yield _unschedulable("half-ported", PORTS, containers=with_host_port(8002, hostIP="10.0.0.9"), **in_pool("edge"))
    yield _unschedulable("snug", "20 Insufficient cpu", cpu="1m", **in_pool("snug"))
    yield _unschedulable("patient", "20 Insufficient cpu", "patient", cpu="1", **in_pool("snug"))
    own = {"group": "rivals-0"}
    affinity = pod_anti_affinity(affinity_term(ZONE, own, namespaceSelector={"matchLabels": {"team": "yes"}}))
    rival = {"namespace": "red", "labels": own, "affinity": affinity}
    yield _unschedulable("rivals", "200 node(s) didn't match pod anti-affinity rules", **rival, **ON_MEADOW)
    noisy = {"namespace": "noisy", "labels": {"kind": "noisy"}}
    yield _unschedulable(
        "noisy", "1 node(s) didn't satisfy existing pods anti-affinity rules", **noisy, **in_pool("keep")
    )
    # The vault has no such pod and admits none, so every other zone exceeds maxSkew already.
    yield _unschedulable(
        "ignoring",
        UNEQUAL,
        labels={"kind": "honouring"},
        topologySpreadConstraints=[spread_constraint(ZONE, "honouring")],
    )
    many = [spread_constraint(ZONE, "zoned", minDomains=9)]
    yield _unschedulable("domains", UNEQUAL, labels={"kind": "zoned"}, topologySpreadConstraints=many, **ON_MEADOW)
    yield _unschedulable("alone", IN_USE, volumes=claim_volume("alone-000"))
    full = {"volumes": claim_volume(f"attached-{ATTACHED:03}"), **in_pool("attach")}
    yield _unschedulable("attached", "5 node(s) exceed max volume count", **full)
    # Unschedulable from the start, but for another reason until their claims are bound.
    yield _unschedulable(
        "remote", "200 node(s) didn't match PersistentVolume's node affinity", volumes=claim_volume("on-mars")
    )
    yield _unschedulable("zonal", "200 node(s) had no available volume zone", volumes=claim_volume("labelled-mars"))

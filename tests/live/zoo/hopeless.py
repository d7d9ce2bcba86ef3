"""Decides the pods of the zoo that never find a place, and the words that say why; leaves those that do to the herd.

Some are hopeless from the start and come among the others; some only once the herd is in. None outranks the pods in
its way, but for those that show that rank is no help to them.
"""

from collections.abc import Iterator
from typing import Any

from tests.live.zoo.asking import (
    animal,
    apart,
    asks,
    claiming,
    expression,
    holding,
    inside,
    near,
    on_nodes,
    over,
    together,
)
from tests.live.zoo.herd import ON_MEADOW
from tests.live.zoo.land import DEDICATED, POOL, ZONE
from tests.live.zoo.storage import ATTACHED
from tools.controlplane.client import Document

Hopeless = tuple[Document, str]
LOWEST = "lowest"
TAINTED = "90 node(s) had untolerated taint(s)"
PORTS = "20 node(s) didn't have free ports for the requested pod ports"
UNEQUAL = "200 node(s) didn't match pod topology spread constraints"
IN_USE = "200 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use"


def _never(name: str, why: str, rank: str = LOWEST, /, **fields: Any) -> Hopeless:
    return animal("never", name, priorityClassName=rank, **fields), why


def from_the_start() -> Iterator[Hopeless]:
    """Those that an empty cluster could not take either."""
    yield _never("large", "200 Insufficient cpu", cpu="100")
    sidecar = {**asks("9"), "name": "sidecar", "restartPolicy": "Always"}
    yield _never("escorted", "200 Insufficient cpu", initContainers=[sidecar], containers=[asks("9")])
    yield _never("counted", "200 Insufficient example.com/fpga", containers=[_asking_for("example.com/fpga")])
    tape = {"nodeSelector": {"disk": "tape"}}
    yield _never("selecting", "200 node(s) didn't match Pod's node affinity/selector", "urgent", **tape)
    nobody = on_nodes({"matchFields": [expression("metadata.name", "In", "nowhere")]})
    yield _never("named", "300 node(s) didn't satisfy plugin(s) [NodeAffinity]", "urgent", affinity=nobody)
    yield _never("barred", TAINTED, nodeSelector={POOL: "gpu"})
    few = [{"key": DEDICATED, "value": "edge", "effect": "NoSchedule"}]
    yield _never("half-barred", TAINTED, nodeSelector={POOL: "edge"}, tolerations=few)
    yield _never("cordoned", "10 node(s) were unschedulable", nodeSelector={POOL: "cordoned"})
    unicorns = together(near(ZONE, {"kind": "unicorn"}))
    yield _never("following", "200 node(s) didn't match pod affinity rules", affinity=unicorns)
    planets = {"topologySpreadConstraints": [over("example.com/planet", "never")]}
    yield _never("spread", f"{UNEQUAL} (missing required label)", **planets)
    yield _never("unclaimed", 'persistentvolumeclaim "nowhere" not found', volumes=claiming("nowhere"))
    yield _never("huge", "200 node(s) didn't find available persistent volumes to bind", volumes=claiming("huge"))
    yield _never("unanswered", "pod has unbound immediate PersistentVolumeClaims", volumes=claiming("unanswered"))


def _asking_for(resource: str) -> Document:
    amounts = {resource: "1"}
    return {**asks("40m"), "resources": {"requests": amounts, "limits": amounts}}


def after_the_herd() -> Iterator[Hopeless]:
    """Those whose place is taken."""
    yield _never("ported", PORTS, containers=holding(8000), **inside("edge"))
    yield _never("half-ported", PORTS, containers=holding(8002, hostIP="10.0.0.9"), **inside("edge"))
    yield _never("snug", "20 Insufficient cpu", cpu="1m", **inside("snug"))
    yield _never("patient", "20 Insufficient cpu", "patient", cpu="1", **inside("snug"))
    own = {"group": "rivals-0"}
    affinity = apart(near(ZONE, own, namespaceSelector={"matchLabels": {"team": "yes"}}))
    rival = {"namespace": "red", "labels": own, "affinity": affinity}
    yield _never("rivals", "200 node(s) didn't match pod anti-affinity rules", **rival, **ON_MEADOW)
    noisy = {"namespace": "noisy", "labels": {"kind": "noisy"}}
    yield _never("noisy", "1 node(s) didn't satisfy existing pods anti-affinity rules", **noisy, **inside("keep"))
    # The vault has none of the kind and lets none in, so every other zone holds too many already.
    yield _never("ignoring", UNEQUAL, labels={"kind": "honouring"}, topologySpreadConstraints=[over(ZONE, "honouring")])
    many = [over(ZONE, "zoned", minDomains=9)]
    yield _never("domains", UNEQUAL, labels={"kind": "zoned"}, topologySpreadConstraints=many, **ON_MEADOW)
    yield _never("alone", IN_USE, volumes=claiming("alone-000"))
    full = {"volumes": claiming(f"attached-{ATTACHED:03}"), **inside("attach")}
    yield _never("attached", "5 node(s) exceed max volume count", **full)
    # Hopeless from the start, but until their claims are bound for another reason.
    yield _never("remote", "200 node(s) didn't match PersistentVolume's node affinity", volumes=claiming("on-mars"))
    yield _never("zonal", "200 node(s) had no available volume zone", volumes=claiming("labelled-mars"))

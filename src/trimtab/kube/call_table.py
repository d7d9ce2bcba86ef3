"""How each instruction is carried out: one table of requests, outcomes and the permissions that they need."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import Any, NamedTuple

from trimtab.core.model.events import Event, LabelDone, LabelFailed, ResizeDone
from trimtab.core.model.instructions import (
    Bind,
    BindVolume,
    EmitEvent,
    EndSurge,
    Evict,
    GetPod,
    Instruction,
    LabelNode,
    Nominate,
    Preempt,
    ReadLedger,
    ResizePod,
    SelectNode,
    SetUnschedulable,
    StartSurge,
    WriteLedger,
)
from trimtab.kube.resize import resize_pod
from trimtab.kube.surge import Send, end_surge, start_surge
from trimtab.wire.ledger import (
    read_ledger_outcome,
    read_ledger_request,
    write_ledger_outcome,
    write_ledger_request,
)
from trimtab.wire.outcomes import (
    Reply,
    bind_outcome,
    bind_volume_outcome,
    evict_outcome,
    get_pod_outcome,
    label_outcome,
    preempt_outcome,
    select_node_outcome,
)
from trimtab.wire.pod import PodReader
from trimtab.wire.requests import (
    Request,
    bind_request,
    bind_volume_request,
    delete_pod_request,
    disruption_target_request,
    evict_request,
    format_label_change,
    get_pod_request,
    label_request,
    select_node_request,
)

log = logging.getLogger(__name__)
# The server itself gives up on a write after 34 s. Waiting longer than that turns most unknown outcomes into known ones.
WRITE_TIMEOUT = 40.0
READ_TIMEOUT = 10.0
SURGING = ("deployments", "replicasets")


class Lane(Enum):
    """Where an instruction waits until it is sent."""

    CALL = auto()  # first come, first served, up to `max_in_flight` at a time
    POD_STATUS = auto()  # merged per pod, low priority
    EVENT = auto()  # the EventRecorder's queue, low priority


class ResourceRule(NamedTuple):
    """A verb on a resource that RBAC must allow."""

    verb: str
    resource: str
    group: str = ""


@dataclass(frozen=True)
class ApiCall:
    """How one kind of instruction is carried out.

    Several requests are sent in turn, each only after a 200 for the one before; the last answer decides the outcome.
    """

    rules: tuple[ResourceRule, ...]
    requests: tuple[Callable[[Any], Request], ...] = ()
    outcome: Callable[[Any, Reply, float], Event] | None = None
    timeout: float = WRITE_TIMEOUT
    lane: Lane = Lane.CALL
    needs_lease: bool = True
    log: Callable[[Any, Any], None] | None = None
    sequence: Callable[[Any, Send, Callable[[], float]], Awaitable[Event]] | None = None  # instead of `requests`
    moves_pods: bool = False  # not sent while moves are paused


def call_table(
    reader: PodReader, now: Callable[[], str], ledger_namespace: str = ""
) -> Mapping[type[Instruction], ApiCall]:
    """All instructions; `now` is the time to write into objects."""
    status = ResourceRule("patch", "pods/status")
    events = tuple(ResourceRule(verb, "events", "events.k8s.io") for verb in ("create", "patch"))
    return {
        Bind: ApiCall((ResourceRule("create", "pods/binding"),), (bind_request,), bind_outcome),
        GetPod: ApiCall(
            (ResourceRule("get", "pods"),),
            (get_pod_request,),
            partial(get_pod_outcome, reader=reader),
            timeout=READ_TIMEOUT,
            needs_lease=False,
        ),
        Preempt: ApiCall(
            (status, ResourceRule("delete", "pods")),
            (lambda preempt: disruption_target_request(preempt, now()), delete_pod_request),
            preempt_outcome,
        ),
        Evict: ApiCall((ResourceRule("create", "pods/eviction"),), (evict_request,), evict_outcome, moves_pods=True),
        ReadLedger: ApiCall(
            (ResourceRule("get", "configmaps"),),
            (lambda read: read_ledger_request(ledger_namespace),),
            partial(read_ledger_outcome, namespace=ledger_namespace),
            timeout=READ_TIMEOUT,
        ),
        WriteLedger: ApiCall(
            tuple(ResourceRule(verb, "configmaps") for verb in ("create", "update")),
            (lambda write: write_ledger_request(write, ledger_namespace),),
            write_ledger_outcome,
        ),
        StartSurge: ApiCall(
            (
                *(ResourceRule(verb, kind, "apps") for kind in SURGING for verb in ("get", "patch")),
                ResourceRule("list", "horizontalpodautoscalers", "autoscaling"),
                ResourceRule("list", "resourcequotas"),
            ),
            sequence=start_surge,
            moves_pods=True,
        ),
        EndSurge: ApiCall((ResourceRule("patch", "pods"),), sequence=end_surge),
        ResizePod: ApiCall(
            (ResourceRule("get", "pods"), ResourceRule("patch", "pods/resize")),
            sequence=resize_pod,
            log=_log_resize,
            moves_pods=True,
        ),
        BindVolume: ApiCall((ResourceRule("patch", "persistentvolumes"),), (bind_volume_request,), bind_volume_outcome),
        SelectNode: ApiCall(
            (ResourceRule("patch", "persistentvolumeclaims"),), (select_node_request,), select_node_outcome
        ),
        LabelNode: ApiCall((ResourceRule("patch", "nodes"),), (label_request,), label_outcome, log=_log_label),
        SetUnschedulable: ApiCall((status,), lane=Lane.POD_STATUS),
        Nominate: ApiCall((status,), lane=Lane.POD_STATUS),
        EmitEvent: ApiCall(events, lane=Lane.EVENT),
    }


def required_rules(*instructions: type[Instruction]) -> tuple[ResourceRule, ...]:
    """What RBAC must allow for these instructions."""
    table = call_table(PodReader(), str)
    return tuple(dict.fromkeys(rule for each in instructions for rule in table[each].rules))


def _log_label(label: LabelNode, outcome: LabelDone | LabelFailed) -> None:
    change = format_label_change(label)
    if isinstance(outcome, LabelDone):
        log.info("labelled node: node=%s change=%s reason=%s", label.node, change, label.reason)
    else:
        log.warning("failed to label node: node=%s change=%s error=%s", label.node, change, outcome.message)


def _log_resize(resize: ResizePod, outcome: ResizeDone) -> None:
    pod = f"{resize.namespace}/{resize.name}"
    if outcome.error:
        log.warning("failed to resize pod: pod=%s cpu=%dm error=%s", pod, resize.cpu, outcome.error)
    else:
        log.info("resized pod: pod=%s cpu=%dm", pod, resize.cpu)

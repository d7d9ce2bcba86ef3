"""The table of instructions: complete, and true about the permissions that its requests need."""

from __future__ import annotations

from typing import get_args

import pytest

from trimtab.core.model.instructions import Bind, BindVolume, Evict, GetPod, Instruction, LabelNode, Preempt, SelectNode
from trimtab.kube.call_table import ResourceRule, call_table
from trimtab.wire.pod import PodReader
from trimtab.wire.requests import Request

SAMPLES: tuple[Instruction, ...] = (
    Bind("u1", "ns", "web", "node-1"),
    GetPod("u1", "ns", "web"),
    Preempt("u1", "ns", "web", "u2", "trimtab"),
    Evict("u1", "ns", "web", "cpu at 95 %"),
    BindVolume("u1", "disk", 7, "ns", "data", "c1"),
    SelectNode("u1", "ns", "data", 7, "node-1"),
    LabelNode("node-1", "u", 7, (("pressure.trimtab.dev/cpu", "high"),)),
)
VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "DELETE": "delete"}


def rule_of(request: Request) -> ResourceRule:
    """The verb and resource of a request in the core API group."""
    parts = request.path.removeprefix("/api/v1/").split("/")
    resource, _, *subresource = parts[2:] if parts[0] == "namespaces" else parts
    verb = "create" if subresource in (["binding"], ["eviction"]) else VERBS[request.method]
    return ResourceRule(verb, "/".join((resource, *subresource)))


def test_every_instruction_has_a_row() -> None:
    """A new instruction must say how it is carried out."""
    assert {*get_args(Instruction)} == {*call_table(PodReader(), str)}


@pytest.mark.parametrize("instruction", SAMPLES, ids=lambda each: type(each).__name__)
def test_the_rules_of_a_row_are_those_of_its_requests(instruction: Instruction) -> None:
    """What doctor checks is what is sent."""
    row = call_table(PodReader(), lambda: "2026-01-01T00:00:00Z")[type(instruction)]
    assert row.rules == tuple(rule_of(build(instruction)) for build in row.requests)

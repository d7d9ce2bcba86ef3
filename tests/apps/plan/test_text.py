"""A plan in words, and as a document."""

from __future__ import annotations

import json

from msgspec.structs import replace

from trimtab.apps.plan.document import document_of, encode
from trimtab.apps.plan.make import PlannedMoves
from trimtab.apps.plan.text import ASKED, plan_lines
from trimtab.apps.plan.usage import Hottest, Peak
from trimtab.core.model.plan import Move, Plan, Refusal
from trimtab.core.rescheduling.settings import ReschedulingSettings

AT = 1769846400.0
MOVE = Move("u-1", "shop/web-1", "n-1", "n-2", "ResourceOptimization", "cpu at 95%, above 80%", 80.51, 32.0)
YOUNG = tuple(Refusal(f"shop/new-{number}", "minimum age", "it has run for 9 s only") for number in range(7))
ALONE = Refusal("shop/debug", "replaceable", "no controller would create it again")
CPU = Hottest("cpu", 0.8, Peak("n-1", 0.95), Peak("n-2", 0.7), 1, 0)
CALM = Hottest("cpu", 0.8, Peak("n-1", 0.31), Peak("n-1", 0.31), 0, 0)


def planned(plan: Plan, hottest: Hottest = CPU) -> PlannedMoves:
    return PlannedMoves(plan, ReschedulingSettings(), AT, "c-1", 2, 12, {"u-1": 41}, (hottest,), ("a note",))


def text_of(plan: Plan, hottest: Hottest = CPU, *, why_not: bool = False) -> str:
    lines = plan_lines(planned(plan, hottest), "cluster.json", why_not=why_not)
    return "\n".join("".join(text for text, _ in line) for line in lines)


def test_moves() -> None:
    """Each with why, gain and cost; then what all of them change, and what was refused in one line."""
    assert (
        "Trimtab would move 1 pod of cluster.json (2 nodes, 12 pods), as of 2026-01-31 08:00:00 UTC.\n"
        "\n"
        "  ~ shop/web-1  n-1 → n-2\n"
        "      why     ResourceOptimization: cpu at 95%, above 80%\n"
        "      gain    80.5, cost 32.0\n"
        "      guards  all allow it\n"
        "\n"
        "Plan: 1 move, penalty of all nodes 120.5 → 40.0.\n"
        "hottest node  before   after    limit  nodes above it\n"
        "cpu           95% n-1  70% n-2  80%    1 → 0\n"
        "\n"
        f"{ASKED}. Refused: 7 by minimum age, 1 by replaceable. "
        "--why-not shows the reasons.\n"
        "Nothing was changed: `trimtab plan` only reads."
    ) == text_of(Plan(AT, (MOVE,), (ALONE, *YOUNG, ALONE), 120.5, 40.0))


def test_a_dear_pod() -> None:
    """Why it costs more than others."""
    dear = replace(MOVE, cost=48.0, cost_reason="priority 1000, starts in 90 s")
    assert "      gain    80.5, cost 48.0 (priority 1000, starts in 90 s)\n" in text_of(Plan(AT, (dear,)))
    document = json.loads(encode(document_of(planned(Plan(AT, (dear,))), AT)))
    assert "priority 1000, starts in 90 s" == document["moves"][0]["costReason"]


def test_nodes_that_another_scheduler_could_choose() -> None:
    """The target is first in the list, so the others are named; a few of them if there are many."""
    names = tuple(f"n-{number}" for number in range(2, 12))
    several = replace(MOVE, could_choose=names[:3])
    line = "      or      n-3, n-4: its scheduler could choose any, and the gain is the least\n"
    assert f"      gain    80.5, cost 32.0\n{line}" in text_of(Plan(AT, (several,)))
    many = text_of(Plan(AT, (replace(MOVE, could_choose=names),)))
    assert "      or      n-3, n-4, n-5, n-6, n-7 and 4 more: its scheduler" in many
    assert "      or " not in text_of(Plan(AT, (replace(MOVE, could_choose=names[:1]),)))
    document = json.loads(encode(document_of(planned(Plan(AT, (several,))), AT)))
    assert ["n-2", "n-3", "n-4"] == document["moves"][0]["couldChoose"]


def test_refusals() -> None:
    """By guard, the most frequent first, with a few examples of each."""
    found = text_of(Plan(AT, (MOVE,), (ALONE, *YOUNG)), why_not=True)
    assert "Why not:\n  minimum age (7)\n    shop/new-0: it has run for 9 s only\n" in found
    assert "    and 2 more\n  replaceable (1)\n    shop/debug: no controller would create it again\n" in found
    assert "--why-not" not in found


def test_nothing_to_move() -> None:
    """An answer like any other: because nodes are calm, or although one is hot."""
    calm = text_of(Plan(AT), CALM)
    assert calm.startswith("Trimtab would move no pod of cluster.json")
    assert "\nNothing to move: every node is below its limits (highest: cpu 31% on n-1).\n" in calm
    assert f"\n{ASKED}, and none refused anything.\n" in calm
    hot = "Nothing to move despite 1 node above the limit of cpu: "
    assert f"{hot}no possible move gains more than it costs.\n" in text_of(Plan(AT))
    refused = text_of(Plan(AT, refusals=(ALONE,)))
    assert f"{hot}1 pod may not be moved, and no possible move gains more than it costs.\n" in refused
    assert "Nothing to move: 1 pod may not be moved, and no" in text_of(Plan(AT, refusals=(ALONE,)), CALM)


def test_document() -> None:
    """Version, times, the cluster, and for each move what identifies the pod; a refusal is listed once."""
    plan = Plan(AT, (MOVE,), (ALONE, ALONE), 120.5, 40.0)
    found = json.loads(encode(document_of(planned(plan), AT + 2)))
    assert {
        "created": "2026-01-31T08:00:02Z",
        "at": "2026-01-31T08:00:00Z",
        "trimtab": found["metadata"]["trimtab"],
        "cluster": "c-1",
        "notes": ["a note"],
    } == found["metadata"]
    assert ("trimtab.dev/v1alpha1", "Plan") == (found["apiVersion"], found["kind"])
    assert [
        {
            "pod": "shop/web-1",
            "uid": "u-1",
            "resourceVersion": "41",
            "source": "n-1",
            "target": "n-2",
            "strategy": "ResourceOptimization",
            "reason": "cpu at 95%, above 80%",
            "gain": 80.51,
            "cost": 32.0,
        }
    ] == found["moves"]
    assert [{"subject": "shop/debug", "guard": "replaceable", "reason": ALONE.reason}] == found["refusals"]
    assert {"before": 120.5, "after": 40.0} == found["penalty"]
    assert [("cpu", 1, 0)] == [(each["resource"], each["overBefore"], each["overAfter"]) for each in found["hottest"]]

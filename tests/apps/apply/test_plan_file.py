"""A plan file is read strictly: whatever is wrong with it, one sentence names the file, the field and the remedy."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from tests.apps.plan.hot_cluster import UID, hot_cluster
from tests.sim.snapshot_clusters import TAKEN
from trimtab.apps.apply.plan_file import CannotApply, age_problem, decode_plan, plan_of, read_plan_file
from trimtab.cli import main

AGAIN = "make it again with `trimtab plan -o FILE`"
Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """As `trimtab plan -o` writes it, with one move."""
    folder = tmp_path_factory.mktemp("plan")
    file = folder / "plan.json"
    assert 2 == CliRunner().invoke(main, ["plan", "--snapshot", str(hot_cluster(folder)), "-o", str(file)]).exit_code
    return file.read_bytes()


def refused(content: bytes) -> str:
    with pytest.raises(CannotApply) as error:
        decode_plan(content, "plan.json")
    return str(error.value)


def test_what_plan_writes_can_be_applied(plan: bytes, tmp_path: Path) -> None:
    """The moves are those of the plan, with the moment that they are of."""
    (tmp_path / "plan.json").write_bytes(plan)
    document = read_plan_file(str(tmp_path / "plan.json"))
    found = plan_of(document)
    (move,) = found.moves
    assert (UID, "shop/web-0", "n-1", "n-2") == (document.metadata.cluster, move.pod, move.source, move.target)
    assert (TAKEN.timestamp(), True) == (found.at, move.gain > move.cost)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda plan: plan.update(apiVersion="trimtab.dev/v2"), "apiVersion is trimtab.dev/v2, and this version of"),
        (lambda plan: plan.update(kind="Snapshot"), " is no plan of Trimtab, but trimtab.dev/v1alpha1 Snapshot"),
        (lambda plan: plan.update(apiVersion="v1"), " is no plan of Trimtab, but v1 Plan"),
        (lambda plan: plan.update(force=True), "Object contains unknown field `force`"),
        (lambda plan: plan.pop("moves"), "Object missing required field `moves`"),
        (lambda plan: plan["moves"][0].update(force=True), "moves[0]: Object contains unknown field `force`"),
        (lambda plan: plan["moves"][0].update(uid=7), "moves[0].uid: Expected `str`, got `int`"),
        (lambda plan: plan["moves"][0].update(uid=""), "moves[0].uid: is empty"),
        (lambda plan: plan["moves"][0].update(gain="80"), "moves[0].gain: Expected `float`, got `str`"),
        (lambda plan: plan["moves"][0].update(pod="web-0"), "moves[0].pod: 'web-0' is not NAMESPACE/NAME"),
        (lambda plan: plan["moves"][0].update(source=""), "moves[0].source: is empty"),
        (lambda plan: plan["moves"][0].update(target=""), "moves[0].target: is empty; moves of a rival have none"),
        (lambda plan: plan["moves"][0].update(target="n-1"), "moves[0].target: n-1 is the source, too"),
        (lambda plan: plan["moves"].append(plan["moves"][0]), "moves[1].uid: shop/web-0 is moved twice"),
        (lambda plan: plan["metadata"].pop("cluster"), "metadata.cluster is missing"),
        (lambda plan: plan["metadata"].update(hashed=True), "metadata.hashed: its names are pseudonyms"),
        (lambda plan: plan["metadata"].update(at="yesterday"), "metadata.at: Invalid RFC3339 encoded datetime"),
        (
            lambda plan: plan["metadata"].update(at="2026-01-31T08:00:00"),
            "metadata.at: Expected `datetime` with a timezone",
        ),
    ],
)
def test_an_edited_plan(plan: bytes, edit: Edit, message: str) -> None:
    """The field is named, and what to do."""
    document = json.loads(plan)
    edit(document)
    said = refused(json.dumps(document).encode())
    assert said.startswith("plan.json") and message in said
    assert AGAIN in said or "--hash-names" in said


def test_no_plan(plan: bytes, tmp_path: Path) -> None:
    """A truncated file, one of something else, and none."""
    assert f"plan.json is no plan, or not all of one (Input data was truncated): {AGAIN}" == refused(plan[:-20])
    assert "is no plan, or not all of one (" in refused(b"")
    assert "is no plan, or not all of one (" in refused(b"\x1f\x8b\x08")
    assert "is no plan, or not all of one (" in refused(b"[1, 2]")
    assert "is no plan of Trimtab, but no apiVersion without kind" in refused(b"{}")
    with pytest.raises(CannotApply, match=r"missing\.json: "):
        read_plan_file(str(tmp_path / "missing.json"))


@pytest.mark.parametrize(
    ("seconds", "message"),
    [
        (0.0, ""),
        (600.0, ""),
        (601.0, "the plan is of 2026-01-31 08:00:00 UTC, 601s ago, and --max-age is 10m: plan again"),
        (-59.0, ""),
        (-61.0, "the plan is of 2026-01-31 08:00:00 UTC, which is in the future: set the clock"),
    ],
)
def test_age(plan: bytes, seconds: float, message: str) -> None:
    """By the moment that the plan is of; clocks may differ a little."""
    found = age_problem(decode_plan(plan, "plan.json"), TAKEN.timestamp() + seconds, 600.0)
    assert found.startswith(message) and bool(found) == bool(message)

"""docs/rescheduling.md and its neighbours have every strategy, argument, guard and opt-out, and their examples are valid."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from tests.config.config_files import FILE, TRIMTAB_HEAD
from trimtab.config.kube_scheduler import parse
from trimtab.config.schema import document_fields
from trimtab.core.model.pod import EVICT_ANYWAY, SAFE_LOCAL_VOLUMES
from trimtab.core.rescheduling.forecast import FORECASTERS
from trimtab.core.rescheduling.guards import CLUSTER_GUARDS, GUARDS
from trimtab.core.rescheduling.guards.pods import OPT_OUTS
from trimtab.core.rescheduling.objective import penalties
from trimtab.core.rescheduling.settings import EAGERNESS
from trimtab.core.rescheduling.strategies.registry import RIVALS, STRATEGIES
from trimtab.forecasters.learned import MAX_PODS, SAMPLE, Learned

DOCS = Path(__file__).parents[3] / "docs"
PAGE = "\n".join((DOCS / f"{name}.md").read_text() for name in ("rescheduling", "forecasts", "rivals"))


def table(heading: str, number: int = 0) -> list[list[str]]:
    """The cells of a table without its head, by what its first column is called."""
    found = re.findall(rf"^\| {re.escape(heading)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)[number]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in found.splitlines()]


def first_column(heading: str) -> list[str]:
    return [row[0] for row in table(heading)]


def test_strategies_and_rivals() -> None:
    """In the order of the registry."""
    assert (list(STRATEGIES), list(RIVALS)) == (first_column("strategy"), first_column("rival"))


@pytest.mark.parametrize(("kinds", "number"), [(STRATEGIES, 0), (RIVALS, 2)])
def test_arguments(kinds: dict[str, type], number: int) -> None:
    """Each with what its declaration says."""
    declared = [each for name, kind in kinds.items() for each in document_fields(kind, f"{name}.")]
    assert [[f"`{path}`", setting.doc] for path, setting in declared] == table("argument", number)


def test_guards() -> None:
    """In the order in which they are asked."""
    assert (list(GUARDS), list(CLUSTER_GUARDS)) == (first_column("guard"), first_column("guard of the cluster"))


def test_opt_outs() -> None:
    """Keys and values of annotations and labels."""
    kinds = ((f"{'label' if each.is_label else 'annotation'} `{each.key}", each.value) for each in OPT_OUTS)
    expected = [f'{key}: "{value}"`' if value in ("", "true", "false") else f"{key}: {value}`" for key, value in kinds]
    *stay, anyway, volumes = first_column("on the pod")
    assert expected == stay
    assert f"annotation `{EVICT_ANYWAY}`" == anyway and volumes.startswith(f"annotation `{SAFE_LOCAL_VOLUMES}: ")


def test_penalty() -> None:
    """The figures of the curve, and what eagerness asks for."""
    for load, expected in table("u"):
        found = penalties(np.array([float(load)], dtype=np.float32), np.ones(1, dtype=np.float32))
        assert pytest.approx(float(expected), abs=6e-4) == float(found)
    asked = {name.strip("`"): float(gain) for name, gain in table("`eagerness`")}
    assert asked == dict(EAGERNESS)


def test_forecasts() -> None:
    """Each has a row, the one that needs an extra last; and the figures of the text are those of the code."""
    names = [name.partition(",")[0].strip("`") for name in first_column("`forecast`")]
    assert [*FORECASTERS, Learned.name] == names
    assert f"at most {SAMPLE:,} pairs" in PAGE and f"the {MAX_PODS:,} largest pods" in PAGE


@pytest.mark.parametrize("example", re.findall(r"```yaml\n((?:rescheduling:|apiVersion:).*?)```", PAGE, re.DOTALL))
def test_examples(example: str) -> None:
    """Each is a valid configuration."""
    content = example if example.startswith("apiVersion") else TRIMTAB_HEAD + example
    assert parse(content, FILE).settings.rescheduling is not None

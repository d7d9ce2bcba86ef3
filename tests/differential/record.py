"""Writes kube-scheduler's answers as recorded cases."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from tests.conformance.corpus import SUFFIX
from tests.differential.generators.rng import JsonObject
from tests.differential.oracle import Oracle
from tests.differential.run_cases import shares, with_answers

REFERENCE = "kubernetes v1.35.8"


def write(oracle: Oracle, folder: Path, total: int, seed: int) -> int:
    """One file per plugin; the same seed gives the same bytes."""
    folder.mkdir(parents=True, exist_ok=True)
    kept = size = 0
    for plugin, count in shares(total).items():
        cases, _ = with_answers(oracle, plugin, count, seed)
        size += save(folder / f"{plugin}.random{SUFFIX}", plugin, cases)
        kept += len(cases)
    print(f"{kept} cases in {size} bytes, seed {seed}")
    return 0


def save(path: Path, plugin: str, cases: list[JsonObject], reference: str = REFERENCE) -> int:
    content = {"format": 1, "plugin": plugin, "source": "random", "reference": reference, "cases": cases}
    packed = gzip.compress(json.dumps(content, separators=(",", ":")).encode(), 9, mtime=0)
    return path.write_bytes(packed)

"""Compares Trimtab with kube-scheduler's own code on random cases, or records its answers.

python -m tests.differential --cases 5000 --seed 1           one line per plugin and tag; exits 1 on a difference
python -m tests.differential --cases 1200 --write FOLDER     writes the answers as recorded cases instead
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.conformance.check_cases import check
from tests.differential.generators.rng import JsonObject
from tests.differential.oracle import Oracle
from tests.differential.record import write
from tests.differential.run_cases import EXPECTED, PluginRun, run_all
from tests.differential.simplify import simplify
from tools.controlplane.rig import NotBuilt, controlplane_folder

SHOWN = 3
LONGEST = 2000


def lines(oracle: Oracle, trial: PluginRun) -> Iterator[str]:
    """The plugin's line and its first differences, each with the smallest question that shows it."""
    unclear = f", {trial.unclear} without a stable answer by Go" if trial.unclear else ""
    yield f"{trial.result}{unclear}"
    broken = {each.case for each in trial.result.disagreements}
    for case in [each for each in trial.cases if each["id"] in broken][:SHOWN]:
        small = smallest(oracle, case)
        yield f"  {case['id']}"
        yield from (f"    {each}" for each in differences(small)[:SHOWN])
        yield f"    {json.dumps({key: value for key, value in small.items() if key != EXPECTED})}"[:LONGEST]


def differences(case: JsonObject) -> list[str]:
    return [line for each in check(case["plugin"], [case]).disagreements for line in each.differences]


def smallest(oracle: Oracle, case: JsonObject) -> JsonObject:
    """The case without anything the difference does not need; it remains in the same part of the answer."""
    parts = {_part(each) for each in differences(case)}

    def differs(question: JsonObject) -> bool:
        answer = oracle.settled(question)
        return answer is not None and not parts.isdisjoint(map(_part, differences({**question, EXPECTED: answer})))

    question = {key: value for key, value in case.items() if key not in (EXPECTED, "tags")}
    small = simplify(question, differs)
    return {**small, EXPECTED: oracle.ask(small)}


def _part(difference: str) -> str:
    return difference.split(":")[0].split(".")[0]


def compare(oracle: Oracle, total: int, seed: int) -> int:
    started, by_tag, different, asked, waiting = time.monotonic(), Counter[str](), 0, 0, 0
    for trial in run_all(oracle, total, seed):
        print(*lines(oracle, trial), sep="\n", flush=True)
        by_tag.update(tag for case in trial.cases for tag in case["tags"])
        asked += len(trial.cases)
        different += len(trial.result.disagreements)
        waiting += len(trial.cases) if trial.result.missing else 0
    print("by tag: " + ", ".join(f"{tag} {count}" for tag, count in sorted(by_tag.items())))
    print(
        f"{asked} cases, seed {seed}: {asked - different - waiting} agree, {different} differ, "
        f"{waiting} wait for plugins that are not built; {time.monotonic() - started:.0f} s"
    )
    return 1 if different else 0


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, metavar="FOLDER")
    chosen = parser.parse_args(arguments)
    try:
        folder = controlplane_folder()
    except NotBuilt as reason:
        print(reason, file=sys.stderr)
        return 2
    with Oracle(folder) as oracle:
        if chosen.write:
            return write(oracle, chosen.write, chosen.cases, chosen.seed)
        return compare(oracle, chosen.cases, chosen.seed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

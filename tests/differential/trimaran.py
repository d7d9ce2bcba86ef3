"""Records the answers of Trimaran's LowRiskOverCommitment to random cases.

    cd tools/trimaran && go build -o /tmp/trimaran .
    .venv/bin/python -m tests.differential.trimaran /tmp/trimaran tests/conformance/recorded

The same seed gives the same bytes. Cases omit what Trimaran sums differently from Kubernetes (sidecars, pod-level resources),
and nodes without any metrics in its response: Trimtab treats those as not measured.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

from tests.conformance.corpus import SUFFIX
from tests.differential.generators.tags import tags
from tests.differential.record import save

PLUGIN = "LowRiskOverCommitment"
REFERENCE = "kubernetes-sigs/scheduler-plugins v0.33.5"
CASES, SEED = 160, 35
END = 1_700_000_000
CPUS = ("100m", "250m", "500m", "1", "1500m", "2", "3")
MEMORIES = ("64Mi", "256Mi", "1Gi", "1500M", "2Gi", "4Gi")

Thing = dict[str, Any]


class Questions:
    """Random clusters of a few nodes, with pods of low requests and high limits."""

    def __init__(self, seed: int) -> None:
        self.dice = Random(f"{PLUGIN}/{seed}")

    def one(self, number: int) -> Thing:
        dice = self.dice
        nodes = [self._node(f"node-{each:02}") for each in range(dice.randint(1, 5))]
        names = [node["metadata"]["name"] for node in nodes]
        pods = [self._pod(f"old-{each:02}", dice.choice(names)) for each in range(dice.randint(0, 4 * len(names)))]
        args = self._args()
        question = {
            "id": f"rnd/{PLUGIN}/{number:04}",
            "source": "random",
            "plugin": PLUGIN,
            "extensionPoints": ["Score"],
            **({"args": args} if args else {}),
            "pod": self._pod("pod"),
            "nodes": nodes,
            "existingPods": pods,
            "metrics": self._metrics(names),
        }
        return {**question, "tags": tags(question)}

    def _args(self) -> Thing:
        dice, args = self.dice, {}
        if dice.random() < 0.3:
            args["smoothingWindowSize"] = dice.choice((1, 2, 5, 12))
        if dice.random() < 0.4:
            weights = {"cpu": dice.choice((0, 0.2, 0.5, 1)), "memory": dice.choice((0, 0.3, 0.8, 1))}
            args["riskLimitWeights"] = dict(dice.sample(sorted(weights.items()), dice.randint(1, 2)))
        return args

    def _node(self, name: str) -> Thing:
        dice = self.dice
        whole = {"cpu": dice.choice(("2", "4", "8")), "memory": dice.choice(("4Gi", "8Gi", "16Gi")), "pods": "110"}
        left = {"cpu": dice.choice(("1900m", "3910m", "7500m")), "memory": dice.choice(("3Gi", "7Gi", "15000M"))}
        offered = {**whole, **left} if dice.random() < 0.5 else whole
        return {"metadata": {"name": name}, "status": {"capacity": whole, "allocatable": offered}}

    def _pod(self, name: str, node: str = "") -> Thing:
        dice = self.dice
        spec: Thing = {"containers": [self._container(f"c{each}") for each in range(dice.randint(1, 2))]}
        if node:
            spec["nodeName"] = node
        if dice.random() < 0.15:
            spec["initContainers"] = [self._container("i")]
        if dice.random() < 0.1:
            spec["overhead"] = {"cpu": "50m", "memory": "32Mi"}
        return {"metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"}, "spec": spec}

    def _container(self, name: str) -> Thing:
        dice, resources = self.dice, {}
        for kind, likely in (("requests", 0.8), ("limits", 0.6)):
            amounts = {"cpu": dice.choice(CPUS), "memory": dice.choice(MEMORIES)}
            chosen = {each: amount for each, amount in amounts.items() if dice.random() < likely}
            if chosen:
                resources[kind] = chosen
        return {"name": name, "image": "x", **({"resources": resources} if resources else {})}

    def _metrics(self, names: list[str]) -> Thing:
        dice = self.dice
        measured = {name: {"metrics": self._of_node()} for name in names if dice.random() < 0.9}
        window = {"duration": "15m", "start": END - 900, "end": END}
        return {"timestamp": END + 5, "window": window, "source": "test", "data": {"NodeMetricsMap": measured}}

    def _of_node(self) -> list[Thing]:
        dice, found = self.dice, []
        for name, kind in (("cpu", "CPU"), ("memory", "Memory")):
            mean = dice.choice((0.0, 100.0, 105.0, *(round(dice.uniform(1, 99), 2) for _ in range(12))))
            operators = dice.choice((("AVG", "STD"), ("AVG", "STD"), ("AVG",), ("Latest", "STD"), ("",), ("STD",), ()))
            for operator in operators:
                value = (
                    round(dice.choice((0.0, dice.uniform(0, 5), dice.uniform(0, 50))), 2) if operator == "STD" else mean
                )
                found.append({"name": name, "type": kind, "operator": operator, "value": value})
        return found or [{"name": "cpu", "type": "CPU", "operator": "AVG", "value": 50.0}]


def main(program: str, folder: str) -> int:
    rolled = Questions(SEED)
    questions = [rolled.one(number) for number in range(CASES)]
    lines = "".join(json.dumps(each) + "\n" for each in questions)
    told = subprocess.run([program], input=lines.encode(), stdout=subprocess.PIPE, check=True).stdout.splitlines()
    answers = [json.loads(line) for line in told]
    kept = [
        {**question, "expected": answer}
        for question, answer in zip(questions, answers, strict=True)
        if "error" not in answer
    ]
    size = save(Path(folder) / f"{PLUGIN}.random{SUFFIX}", PLUGIN, kept, REFERENCE)
    print(f"{len(kept)} of {CASES} cases in {size} bytes, seed {SEED}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""Simplifies a case in which two implementations differ.

Everything that can be removed while they still differ is removed: nodes, pods, objects, fields, one at a time.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from tests.differential.generators.rng import JsonObject

NEEDED = {"id", "plugin", "extensionPoints", "pod", "preemptionMode", "queue"}
NAMES = {"metadata", "spec", "status", "allocatable", "pods", "containers", "name", "namespace", "uid", "nodeName"}
MAX_TRIES = 2000

Path = tuple[Any, ...]


def simplify(question: JsonObject, differs: Callable[[JsonObject], bool]) -> JsonObject:
    """The smallest question found that still differs."""
    tries, small, shrunk = MAX_TRIES, question, True
    while shrunk and tries > 0:
        shrunk = False
        for path in list(_places(small)):
            candidate = _without(small, path)
            tries -= 1
            if candidate is not None and tries > 0 and differs(candidate):
                small, shrunk = candidate, True
    return small


def _places(value: Any, above: Path = ()) -> Iterator[Path]:
    """Paths that may be removed: outer ones first, the last of a list first, so that the others keep their index."""
    if isinstance(value, dict):
        keys = [key for key in value if key not in NEEDED | NAMES]
        yield from ((*above, key) for key in keys)
        for key in value:
            yield from _places(value[key], (*above, key))
    elif isinstance(value, list):
        yield from ((*above, index) for index in reversed(range(len(value))))
        for index in reversed(range(len(value))):
            yield from _places(value[index], (*above, index))


def _without(question: JsonObject, path: Path) -> JsonObject | None:
    """A copy without that path; None if it is gone already. A node to be scored is removed with the node."""
    made = copy.deepcopy(question)
    holder: Any = made
    try:
        for step in path[:-1]:
            holder = holder[step]
        del holder[path[-1]]
    except (KeyError, IndexError, TypeError):
        return None
    return _consistent(made)


def _consistent(question: JsonObject) -> JsonObject:
    known = {node["metadata"]["name"] for node in question.get("nodes", ())}
    if "scoreNodes" in question:
        question["scoreNodes"] = [name for name in question["scoreNodes"] if name in known]
    if "existingPods" in question:
        question["existingPods"] = [pod for pod in question["existingPods"] if pod["spec"].get("nodeName") in known]
    return question

"""Simplifying a case keeps the difference."""

from tests.differential.generators.rng import JsonObject
from tests.differential.simplify import simplify

BIG: JsonObject = {
    "plugin": "NodePorts",
    "pod": {
        "metadata": {"name": "pod", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c"}, {"name": "d"}]},
    },
    "nodes": [{"metadata": {"name": name}, "spec": {}} for name in ("one", "two", "three")],
    "existingPods": [{"metadata": {"name": "old"}, "spec": {"nodeName": "one"}}],
    "scoreNodes": ["three", "one"],
}


def has_two(question: JsonObject) -> bool:
    return any(node["metadata"]["name"] == "two" for node in question.get("nodes", ()))


def test_keeps_only_what_matters() -> None:
    """Nodes, pods and fields are removed while the difference remains; names are kept."""
    pod = {"metadata": {"name": "pod"}, "spec": {"containers": []}}
    node = {"metadata": {"name": "two"}, "spec": {}}
    assert {"plugin": "NodePorts", "pod": pod, "nodes": [node]} == simplify(BIG, has_two)


def test_leaves_the_question_alone() -> None:
    """The given question is not modified, and one that cannot be simplified is returned unchanged."""
    before = repr(BIG)
    assert BIG == simplify(BIG, lambda _: False)
    assert before == repr(BIG)


def test_stays_whole() -> None:
    """No pod remains on a removed node, and no removed node is to be scored."""
    seen: list[JsonObject] = []

    def noted(question: JsonObject) -> bool:
        seen.append(question)
        return has_two(question)

    simplify(BIG, noted)
    known = [{node["metadata"]["name"] for node in each.get("nodes", ())} for each in seen]
    homes = [{pod["spec"]["nodeName"] for pod in each.get("existingPods", ())} for each in seen]
    scored = [set(each.get("scoreNodes", ())) for each in seen]
    assert all(here <= there for here, there in zip(homes, known, strict=True))
    assert all(here <= there for here, there in zip(scored, known, strict=True))

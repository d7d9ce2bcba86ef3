"""The comparison finds planted differences and names what it cannot compare."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.__main__ import main
from tests.conformance.check_cases import WHOLE_PROFILES, check
from tests.conformance.compare import differences
from trimtab.config.registry import IN_TREE

NODE = {"metadata": {"name": "a"}, "spec": {"unschedulable": True}}
POD = {"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": {"containers": []}}
CORDONED = {"code": "UnschedulableAndUnresolvable", "reasons": ["node(s) were unschedulable"]}


def case(number: int, verdict: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"planted/{number}", "pod": POD, "nodes": [NODE], "expected": {"filter": {"a": verdict}}}


def write(folder: Path, plugin: str, *cases: dict[str, Any], source: str = "random", form: int = 1) -> None:
    content = {"format": form, "plugin": plugin, "source": source, "cases": cases}
    (folder / f"{plugin}.{source}.json.gz").write_bytes(gzip.compress(json.dumps(content).encode()))


def run(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, list[str]]:
    return main([str(folder)]), capsys.readouterr().out.splitlines()


def test_agreement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Cases of both sources are counted together, and agreement exits 0."""
    write(tmp_path, "NodeUnschedulable", case(1, CORDONED))
    write(tmp_path, "NodeUnschedulable", case(2, CORDONED), source="upstream")
    code, lines = run(tmp_path, capsys)
    assert 0 == code
    assert "NodeUnschedulable 2/2" == lines[0]


def test_planted_disagreement(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A case with another answer is named with node, expectation and answer, and exits 1."""
    write(tmp_path, "NodeUnschedulable", case(1, CORDONED), case(2, {"code": "Success"}))
    code, lines = run(tmp_path, capsys)
    assert 1 == code
    assert ["NodeUnschedulable 1/2", "  planted/2"] == lines[:2]
    assert f"    filter.a: expected {{'code': 'Success'}}, got {CORDONED}" == lines[2]


def test_few_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of many disagreements the first are shown and the rest are counted."""
    write(tmp_path, "NodeUnschedulable", *(case(number, {"code": "Success"}) for number in range(9)))
    code, lines = run(tmp_path, capsys)
    assert 1 == code
    assert "  and 4 more cases" in lines


def test_not_built(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A plugin that is not built in is listed as such and is no disagreement."""
    write(tmp_path, "NeverHeardOf", case(1, CORDONED), case(2, CORDONED))
    code, lines = run(tmp_path, capsys)
    assert 0 == code
    assert "NeverHeardOf not built (2 cases)" == lines[0]


@pytest.mark.parametrize("profile", WHOLE_PROFILES)
def test_profile_waits_for_its_plugins(profile: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole profile is compared only when all its plugins exist; missing ones are named."""
    monkeypatch.delitem(IN_TREE, "NodePorts")
    assert "NodePorts" in check(profile, [case(1, CORDONED)]).missing


def test_unreadable_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An object that the wire cannot read whole is a disagreement, not a crash, and the next case is still compared."""
    broken = case(1, CORDONED) | {"pod": {**POD, "spec": {"containers": 7}}}
    write(tmp_path, "NodeUnschedulable", broken, case(2, CORDONED))
    code, lines = run(tmp_path, capsys)
    assert 1 == code
    assert "NodeUnschedulable 1/2" == lines[0]
    assert lines[2].startswith("    Unreadable: pod default/web: spec.containers")


def test_unanswerable_point(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the comparison does not know how to ask is a disagreement, never silently passed over."""
    write(tmp_path, "NodeUnschedulable", case(1, CORDONED) | {"expected": {"novelty": 1}})
    code, lines = run(tmp_path, capsys)
    assert 1 == code
    assert "    novelty: expected 1, got None" in lines


def test_nothing_to_compare(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A folder without cases is an error of the command, with a message."""
    assert 2 == main([str(tmp_path)])
    assert "no *.json.gz there" in capsys.readouterr().err


def test_unknown_format(tmp_path: Path) -> None:
    """Cases of a format that is not understood are rejected rather than misread."""
    write(tmp_path, "NodeUnschedulable", form=2)
    with pytest.raises(ValueError, match="format 2"):
        main([str(tmp_path)])


@pytest.mark.parametrize(
    ("expected", "got", "places"),
    [
        ({"code": "Success"}, {"code": "Success", "reasons": []}, 0),
        ({"code": "Skip", "reasons": ["a", "b"]}, {"code": "Skip", "reasons": ["b", "a"]}, 0),
        ({"code": "Success"}, {"code": "Success", "nodeNames": []}, 1),
        ({"code": "Success", "nodeNames": ["a"]}, {"code": "Success", "nodeNames": ["b"]}, 1),
        ({"a": 1, "b": 2}, {"a": 1}, 1),
        ({"a": 1}, {"a": 1, "b": 2}, 1),
        ({"a": 1, "b": 2}, {"a": 2, "b": 1}, 2),
        ([[True]], [[False]], 1),
    ],
)
def test_differences(expected: Any, got: Any, places: int) -> None:
    """Reasons are compared as sets; everything else that differs, is missing or is too much counts once each."""
    assert places == len(list(differences(expected, got)))

"""Every scenario file, however broken, is accepted or rejected with clear messages."""

import copy
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sim.scenario_file.scenario_texts import FILE, FULL
from trimtab.config.diagnostics import ConfigError
from trimtab.sim.scenario_file import parse_scenario

CONTENT = f"{FULL}trace: {{folder: none, nodes: 3}}\n"
TREES: tuple[Any, Any] = (yaml.safe_load(FULL), yaml.safe_load(CONTENT))
WORDS = [
    "no",
    "012",
    "1:30",
    "08:00",
    "26:00",
    "10m",
    "-5s",
    "99999h",
    "50%",
    "1e9%",
    "250m",
    "1e999",
    "a/b",
    "../..",
    "x\0y",
    "a" * 300,
    "Deployment",
    "Job",
    "worker-1",
    "",
    "ä",
    "\x1b[0m",
]
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.sampled_from(WORDS),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
    st.just([None]),
    st.just([[]]),
    st.just({"at": "10m", "name": "x", "steady": "10%"}),
)


def answered(content: str | bytes) -> bool:
    """Whether the file is valid; any other exception, or a problem without a message, is a failure."""
    try:
        parse_scenario(content, FILE, Path("/nonexistent"))
    except ConfigError as error:
        assert error.problems
        assert all(problem.message and str(problem).isprintable() for problem in error.problems)
        return False
    return True


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every container of a tree with each of its keys."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else []
    return [(tree, key) for key in keys] + [place for key in keys for place in places(tree[key])]


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_values_exchanged(data: st.DataObject) -> None:
    """A file with values replaced, removed, renamed or repeated is accepted or rejected."""
    tree = copy.deepcopy(TREES[data.draw(st.booleans())])
    for _ in range(data.draw(st.integers(1, 3))):
        found = places(tree)
        container, key = found[data.draw(st.integers(0, len(found) - 1))]
        match data.draw(st.sampled_from(["exchange", "remove", "rename", "repeat"])):
            case "exchange":
                container[key] = copy.deepcopy(data.draw(VALUES))
            case "rename" if isinstance(container, dict):
                container[data.draw(st.text(max_size=6))] = container.pop(key)
            case "repeat" if isinstance(container, list):
                container.append(copy.deepcopy(container[key]))
            case _:
                del container[key]
    answered(yaml.dump(tree, Dumper=yaml.CSafeDumper))


@given(st.binary(max_size=8), st.integers(0, len(CONTENT)), st.integers(0, 40))
@settings(max_examples=300, deadline=None)
def test_bytes_exchanged(piece: bytes, at: int, gone: int) -> None:
    """A file with a few bytes replaced anywhere is accepted or rejected."""
    content = CONTENT.encode()
    answered(content[:at] + piece + content[at + gone :])


@given(st.text(alphabet="abc:-[]{}&*!|>'\"%@`#, \n\t?~0<", max_size=60))
@settings(max_examples=100, deadline=None)
def test_noise(text: str) -> None:
    """Random YAML punctuation is rejected with a message."""
    assert not answered(text)


def test_the_file_itself_is_good() -> None:
    """Otherwise the tests above would prove little."""
    assert answered(FULL)

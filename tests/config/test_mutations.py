"""Every file, however broken, is accepted or rejected with clear messages."""

import copy
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.config.config_files import FILE, FULL, TRIMTAB_FULL, comparable
from trimtab.config.diagnostics import ConfigError
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse

BOTH = f"{FULL}---\n{TRIMTAB_FULL}"
PLAIN: dict[str, Any] = yaml.safe_load(FULL)
WORDS = [
    "no",
    "012",
    "1:30",
    "*",
    "NodeName",
    "default-scheduler",
    "15s",
    "http://u:p@h",
    "rate(x[$window])",
    "cpu",
    "nodeCPU",
    "",
    "ä",
    "\t",
    "\x1b[0m",
    "PodTopologySpread",
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
    st.just({"name": "NodeAffinity", "weight": 1}),
)


def answered(content: str | bytes) -> bool:
    """Whether the file is valid; any other exception, or a problem without a message, is a failure."""
    try:
        configuration = parse(content, FILE)
    except ConfigError as error:
        assert all(problem.message and str(problem).isprintable() for problem in error.problems)
        assert error.problems
        return False
    assert comparable(configuration) == comparable(parse(dump(configuration), FILE))
    return True


def places(tree: Any) -> list[tuple[Any, Any]]:
    """Every container of a tree with each of its keys."""
    keys = list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else []
    return [(tree, key) for key in keys] + [place for key in keys for place in places(tree[key])]


@pytest.mark.parametrize("content", [FULL, TRIMTAB_FULL])
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_values_exchanged(content: str, data: st.DataObject) -> None:
    """A file with values replaced, removed or renamed is accepted or rejected, and can be dumped if accepted."""
    tree = yaml.safe_load(content)
    for _ in range(data.draw(st.integers(1, 3))):
        container, key = data.draw(st.sampled_from(places(tree)))
        match data.draw(st.sampled_from(["exchange", "remove", "rename", "repeat"])):
            case "exchange":
                container[key] = copy.deepcopy(data.draw(VALUES))
            case "rename" if isinstance(container, dict):
                container[data.draw(st.text(max_size=6))] = container.pop(key)
            case "repeat" if isinstance(container, list):
                container.append(copy.deepcopy(container[key]))
            case _:
                del container[key]
    answered(yaml.safe_dump(tree))


@given(st.binary(max_size=8), st.integers(0, len(BOTH)), st.integers(0, 40))
@settings(max_examples=200, deadline=None)
def test_bytes_exchanged(piece: bytes, at: int, gone: int) -> None:
    """A file with a few bytes replaced anywhere is accepted or rejected."""
    content = BOTH.encode()
    answered(content[:at] + piece + content[at + gone :])


@given(st.text(alphabet="abc:-[]{}&*!|>'\"%@`#, \n\t?~0<", max_size=60))
@settings(max_examples=200, deadline=None)
def test_noise(text: str) -> None:
    """Random YAML punctuation is rejected with a message."""
    assert not answered(text)


CARRIER = (
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata:\n  config.yaml: |\n"
    + "".join(f"    {line}\n" for line in BOTH.splitlines())
).encode()


@given(
    piece=st.sampled_from([b"|2", b">-", b'"', b"\n", b"\r\n", b"    ", b"\xc2\x85", b"\xe2\x80\xa8", b"kind:", b""]),
    at=st.integers(0, len(CARRIER)),
    gone=st.integers(0, 12),
)
@settings(max_examples=150, deadline=None)
def test_bytes_of_a_config_map_exchanged(piece: bytes, at: int, gone: int) -> None:
    """The same for a configuration in a ConfigMap, whatever becomes of its indentation and line breaks."""
    answered(CARRIER[:at] + piece + CARRIER[at + gone :])


def test_the_file_itself_is_good() -> None:
    """The unchanged file is valid."""
    assert answered(BOTH)
    assert answered(yaml.safe_dump(PLAIN))

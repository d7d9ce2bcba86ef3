"""Which YAML is accepted, and that everything else is rejected with a message and a position."""

import pytest

from tests.config.config_files import FILE, HEAD, problems_of
from trimtab.config.diagnostics import ConfigError
from trimtab.config.yaml import MAX_BYTES, MAX_DEPTH, MappingNode, ScalarNode, SequenceNode, parse_documents


def bomb(levels: int) -> str:
    """Aliases that stand for ten times more with each level."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "f.yaml: the file is empty"),
        (b"# only a comment\n---\n", "f.yaml: the file is empty"),
        (b"null\n", "f.yaml: the file is empty"),
        (b"a: [1, 2\n", "f.yaml:2:1: not YAML: did not find expected ',' or ']'"),
        (b"a: b: c\n", "f.yaml:1:5: not YAML: mapping values are not allowed in this context"),
        (b"a:\n\tb: 1\n", "f.yaml:2:1: not YAML: indent with spaces, not tabs"),
        (b"\xef\xbb\xbfa: 1\n", "f.yaml:1:1: the file starts with a byte order mark: save it as UTF-8 without one"),
        (b"a: 1\nb: x\x00y\n", "f.yaml:2:5: the character U+0000 is not allowed in YAML"),
        ("a: \ud800\n", "f.yaml:1:4: the character U+D800 is not allowed in YAML"),
        (b"a: 1\nb: \xff\n", "f.yaml:2:4: the file is not UTF-8 text"),
        ("a: 1\n".encode("utf-16"), "f.yaml:1:1: the file is not UTF-8 text"),
        (b"#" * (MAX_BYTES + 1), f"f.yaml: the file is larger than {MAX_BYTES} bytes"),
        (b"[" * 100_000, f"f.yaml:1:{MAX_DEPTH + 1}: nested deeper than {MAX_DEPTH} levels"),
        (b"a: 1\nb: 2\na: 3\n", "f.yaml:3:1: duplicate key a, first set in line 1"),
        (b"a: {b: 1, b: 2}\n", "f.yaml:1:11: duplicate key b, first set in line 1"),
        (
            b"on: 1\n",
            "f.yaml:1:1: on is a boolean to some YAML parsers and a string to others: write true or false, or quote it",
        ),
        (b"7: 1\n", "f.yaml:1:1: a key must be a string"),
        (b"? [a]\n: 1\n", "f.yaml:1:3: a key must be a string"),
        (b"a: &x {b: 1}\nc: {<<: *x}\n", "f.yaml:2:5: merge keys are not supported: write the fields out"),
        (
            b"a: !!python/name:os.system 1\n",
            "f.yaml:1:4: the tag tag:yaml.org,2002:python/name:os.system is not supported",
        ),
        (b"a: !thing [1]\n", "f.yaml:1:4: the tag !thing is not supported"),
        (b"a: *b\n", "f.yaml:1:4: the alias *b is not defined before this line"),
        (b"a: &a [*a]\n", "f.yaml:1:8: the alias *a is not defined before this line"),
    ],
)
def test_rejected_texts(content: str | bytes, complaint: str) -> None:
    """A text that is no plain YAML is refused with one sentence and the place."""
    with pytest.raises(ConfigError) as caught:
        parse_documents(content, FILE)
    assert [complaint] == [str(problem) for problem in caught.value.problems]


def test_alias_bomb() -> None:
    """Aliases that would grow beyond all bounds are refused before they grow."""
    with pytest.raises(ConfigError, match="more than 50000 values, aliases counted in full"):
        parse_documents(bomb(12), FILE)


def test_aliases_within_bounds() -> None:
    """An alias stands for the value that its anchor names."""
    (tree,) = parse_documents("a: &x [1, two]\nb: *x\n", FILE)
    assert isinstance(tree, MappingNode)
    assert tree.entries["a"] is tree.entries["b"]


def test_places() -> None:
    """Every value knows its line and column, also behind characters of more than one byte."""
    (tree,) = parse_documents('"ä": {b: [x, "y"]}\n', FILE)
    assert isinstance(tree, MappingNode)
    inner = tree.entries["ä"]
    assert isinstance(inner, MappingNode)
    assert SequenceNode((ScalarNode("x", (1, 11)), ScalarNode("y", (1, 14))), (1, 10)) == inner.entries["b"]
    assert {"b": (1, 7)} == inner.key_positions


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("", None),
        ("~", None),
        ("null", None),
        ("true", True),
        ("False", False),
        ("12", 12),
        ("-3", -3),
        ("0", 0),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("15s", "15s"),
        ('"no"', "no"),
        ("'012'", "012"),
        ("!!str 7", "7"),
        ("nothing", "nothing"),
        ("1e9999", "1e9999"),
        ("2024-01-01", "2024-01-01"),
    ],
)
def test_words_that_are_plain(word: str, value: object) -> None:
    """Words on which readers of YAML agree stand for what everybody expects."""
    (tree,) = parse_documents(f"a: {word}\n", FILE)
    assert isinstance(tree, MappingNode)
    leaf = tree.entries["a"]
    assert isinstance(leaf, ScalarNode)
    assert (value, type(value), "") == (leaf.value, type(leaf.value), leaf.ambiguity)


@pytest.mark.parametrize(
    "word",
    ["no", "Yes", "ON", "off", "012", "0x1F", "0o17", "0b1", "1_000", "1:30", ".inf", "-.INF", ".nan", "9" * 5000],
)
def test_words_that_are_doubtful(word: str) -> None:
    """Words on which readers of YAML disagree are marked, so that nothing relies on them."""
    (tree,) = parse_documents(f"a: {word}\n", FILE)
    assert isinstance(tree, MappingNode)
    leaf = tree.entries["a"]
    assert isinstance(leaf, ScalarNode)
    assert "" != leaf.ambiguity


def test_escapes_never_reach_the_terminal() -> None:
    """A key spelt with escapes is shown by its escapes, on one line."""
    found = problems_of(HEAD + '"\\e[31m\\nred": 1\n')
    assert ["f.yaml:3:1: \\x1b[31m\\nred: unknown field"] == found

"""The difference between an object on the server and the same after an apply, as a unified diff of YAML."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

import yaml

# What the server sets by itself at each write.
SERVER_METADATA = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")
MASKED_FIELDS = ("data", "stringData")
MASK = "*** (masked)"


def comparable(item: Mapping[str, Any]) -> dict[str, Any]:
    """The object without status and without what the server sets by itself; of a Lease, which its holder renews all the
    time, not the spec either."""
    left_out = {"status", "spec"} if item.get("kind") == "Lease" else {"status"}
    metadata = {key: value for key, value in item.get("metadata", {}).items() if key not in SERVER_METADATA}
    return {**{key: value for key, value in item.items() if key not in left_out}, "metadata": metadata}


def unified_diff(before: Mapping[str, Any] | None, after: Mapping[str, Any] | None, name: str) -> list[str]:
    """Lines of a unified diff; empty if nothing changes. Values of Secrets are masked, their changes marked."""
    old, new = (None if each is None else comparable(each) for each in (before, after))
    if old == new:
        return []
    one, other = _yaml_lines(_masked(old, new, "before")), _yaml_lines(_masked(new, old, "after"))
    return list(difflib.unified_diff(one, other, f"live {name}", f"new {name}", lineterm=""))


def _masked(item: dict[str, Any] | None, other: dict[str, Any] | None, word: str) -> dict[str, Any] | None:
    if item is None or item.get("kind") != "Secret":
        return item
    return {
        **item,
        **{field: _mask(item[field], (other or {}).get(field), word) for field in MASKED_FIELDS if field in item},
    }


def _mask(values: Any, others: Any, word: str) -> Any:
    known = others if isinstance(others, dict) else {}
    return {key: MASK if known.get(key) == value else f"{MASK}, {word}" for key, value in (values or {}).items()}


def _yaml_lines(item: dict[str, Any] | None) -> list[str]:
    return [] if item is None else to_yaml(item).splitlines()


class _Dumper(yaml.CSafeDumper):
    """Writes texts of several lines as blocks, so that a changed line of a configuration is one changed line."""


def _represent_text(dumper: yaml.CSafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent_text)


def to_yaml(item: Mapping[str, Any]) -> str:
    """The object as YAML, in its own order of fields."""
    return yaml.dump(dict(item), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)

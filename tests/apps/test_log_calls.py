"""Every log call of the product fits the JSON format, which makes a field of each `key=%s`."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import trimtab

SOURCE = Path(trimtab.__file__).parent
LEVELS = {"debug", "info", "warning", "error", "exception"}


def log_calls() -> list[tuple[str, str, int]]:
    """Place, format and number of arguments of each call of a module's `log`."""
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in LEVELS):
                continue
            if not (isinstance(call.func.value, ast.Name) and call.func.value.id == "log"):
                continue
            text = call.args[0]
            if isinstance(text, ast.Constant) and not any(isinstance(each, ast.Starred) for each in call.args):
                found.append((f"{path.relative_to(SOURCE)}:{call.lineno}", str(text.value), len(call.args) - 1))
    return found


def test_every_value_of_a_log_line_has_a_key_of_its_own() -> None:
    """A second value behind one key would cost the line all its fields in the JSON log."""
    calls = log_calls()
    assert 20 < len(calls)
    keyed = [(place, text, len(re.findall(r"\w+=%", text)), count) for place, text, count in calls if "=" in text]
    assert [] == [(place, text) for place, text, keys, count in keyed if keys != count]
    assert [] == [(place, text) for place, text, _ in calls if re.search(r"\b\w+=[^%]", text)]

"""What is wrong with a label selector, in the words that Kubernetes has for it; who is refused for it is left open."""

from __future__ import annotations

import json

from trimtab.core.model.selectors import LabelSelector, Requirement

_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


def selector_error(selector: LabelSelector | None) -> str:
    """The first fault, by its field; nothing when there is none."""
    if selector is None or selector.valid:
        return ""
    lines = (*(Requirement(key, "In", (value,)) for key, value in selector.match_labels), *selector.match_expressions)
    return next((words for words in map(_requirement_error, lines) if words), "")


def _requirement_error(line: Requirement) -> str:
    if line.operator not in _OPERATORS:
        return f"{json.dumps(line.operator)} is not a valid label selector operator"
    if line.valid:
        return ""
    if not Requirement(line.key, "Exists").valid:
        return f"key: Invalid value: {json.dumps(line.key)}: not a valid label key"
    if line.operator in ("In", "NotIn") and not line.values:
        return "values: Invalid value: []: for 'in', 'notin' operators, values set can't be empty"
    if line.operator not in ("In", "NotIn"):
        return (
            f"values: Invalid value: {json.dumps(line.values)}: values set must be empty for exists and does not exist"
        )
    number, value = next(
        (number, value) for number, value in enumerate(line.values) if not Requirement(line.key, "In", (value,)).valid
    )
    return f"values[{number}][{line.key}]: Invalid value: {json.dumps(value)}: {_VALUE_RULE}"

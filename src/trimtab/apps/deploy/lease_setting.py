"""Sets `leaderElection.resourceNamespace` in a configuration's text, and leaves every other character as it is.

The role that grants the lease is bound in the namespace of the installation, so the lease must be there. The text is edited
and not written anew, because its comments are what the operator reads in the ConfigMap.
"""

from __future__ import annotations

import re

from trimtab.config.yaml import MappingNode, Position, ScalarNode, YamlNode, parse_documents

FIELD, PARENT = "resourceNamespace", "leaderElection"
# With the profile that holds without such a document: in one without profiles it would be default-scheduler.
HEADER = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    "{}\nprofiles: [{{schedulerName: trimtab}}]\n---\n"
)
_SCALAR = re.compile(r"""'[^']*'|"[^"]*"|[^\s,}#]+""")


def with_lease_namespace(text: str, namespace: str, file: str) -> str:
    """The same configuration with its lease in this namespace; raises ConfigError if it is not YAML."""
    value = f'"{namespace}"'  # quoted: a name such as 1e3 is a number otherwise
    scheduler = _scheduler_document(parse_documents(text, file))
    if scheduler is None:
        return HEADER.format(f"{PARENT}: {{{FIELD}: {value}}}") + text
    parent = scheduler.entries.get(PARENT)
    if not isinstance(parent, MappingNode) or not parent.entries:
        return _insert(text, scheduler, f'"{PARENT}": {{"{FIELD}": {value}}}')
    current = parent.entries.get(FIELD)
    if not isinstance(current, ScalarNode):
        return _insert(text, parent, f'"{FIELD}": {value}')
    start = _offset(text, current.position)
    return text[:start] + _SCALAR.sub(lambda found: value, text[start:], count=1)


def written_lease_namespace(text: str, file: str) -> str:
    """The lease's namespace that the text itself sets; empty if it sets none."""
    scheduler = _scheduler_document(parse_documents(text, file))
    parent = scheduler.entries.get(PARENT) if scheduler is not None else None
    current = parent.entries.get(FIELD) if isinstance(parent, MappingNode) else None
    return str(current.value) if isinstance(current, ScalarNode) else ""


def _scheduler_document(documents: tuple[YamlNode, ...]) -> MappingNode | None:
    for document in documents:
        kind = document.entries.get("kind") if isinstance(document, MappingNode) else None
        if (
            isinstance(document, MappingNode)
            and isinstance(kind, ScalarNode)
            and kind.value == "KubeSchedulerConfiguration"
        ):
            return document
    return None


def _insert(text: str, mapping: MappingNode, entry: str) -> str:
    """Put the entry before the mapping's first one, in the same style."""
    start = _offset(text, mapping.position)
    if text[start] == "{":
        return f"{text[: start + 1]}{entry}, {text[start + 1 :]}"
    first = min(mapping.key_positions.values())
    at = _offset(text, first)
    return f"{text[:at]}{entry}\n{' ' * (first[1] - 1)}{text[at:]}"


def _offset(text: str, position: Position) -> int:
    line, column = position
    return sum(len(each) for each in text.splitlines(keepends=True)[: line - 1]) + column - 1

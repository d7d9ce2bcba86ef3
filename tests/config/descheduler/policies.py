"""Policies of other reschedulers for these tests."""

from __future__ import annotations

from trimtab.config.descheduler.equivalent import convert_policy
from trimtab.config.descheduler.rivals import ReadPolicy, read_rival
from trimtab.config.diagnostics import ConfigError

FILE = "policy.yaml"
LOW_NODE_UTILIZATION = "{thresholds: {cpu: 20, memory: 20}, targetThresholds: {cpu: 50, memory: 60}}"
LOW_NODE_LOAD = "{lowThresholds: {cpu: 20, memory: 30}, highThresholds: {cpu: 50, memory: 60}}"
MINIMAL = {
    "LowNodeUtilization": LOW_NODE_UTILIZATION,
    "HighNodeUtilization": "{thresholds: {cpu: 20, memory: 20}}",
    "LowNodeLoad": LOW_NODE_LOAD,
    "RemovePodsViolatingNodeAffinity": "{nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}",
}


def policy(top: str = "", **plugins: str) -> str:
    """A DeschedulerPolicy with these arguments by plugin; all of them are enabled but DefaultEvictor."""
    enabled = ", ".join(name for name in plugins if name != "DefaultEvictor")
    configs = "".join(f"  - {{name: {name}, args: {args}}}\n" for name, args in plugins.items())
    head = f"apiVersion: descheduler/v1alpha2\nkind: DeschedulerPolicy\n{top}profiles:\n- name: default\n"
    return f"{head}  plugins: {{balance: {{enabled: [{enabled}]}}}}\n  pluginConfig:\n{configs}"


def koordinator(top: str = "", **plugins: str) -> str:
    """A DeschedulerConfiguration of Koordinator."""
    enabled = ", ".join(f"{{name: {name}}}" for name in plugins if name != "MigrationController")
    configs = "".join(f"  - {{name: {name}, args: {args}}}\n" for name, args in plugins.items())
    head = f"apiVersion: descheduler/v1alpha2\nkind: DeschedulerConfiguration\n{top}profiles:\n- name: koord\n"
    evict = "evict: {enabled: [{name: MigrationController}]}"
    return f"{head}  plugins: {{{evict}, balance: {{enabled: [{enabled}]}}}}\n  pluginConfig:\n{configs}"


def with_field(args: str, field: str) -> str:
    """A mapping in braces with one field more."""
    inner = args[1:-1]
    return f"{{{inner}, {field}}}" if inner else f"{{{field}}}"


def problems_of(content: str, as_rival: bool = False) -> list[str]:
    """One line each; none if the file is valid."""
    try:
        (read_rival if as_rival else convert_policy)(content, FILE)
    except ConfigError as error:
        return [str(each) for each in error.problems]
    return []


def messages(found: ReadPolicy) -> list[str]:
    """The notes, each with the end of its path."""
    return [f"{each.path.split('.')[-1]}: {each.message}" for each in found.notes]

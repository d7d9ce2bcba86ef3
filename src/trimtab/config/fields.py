"""The fields and versions of KubeSchedulerConfiguration: what is supported, and what it does here.

The arguments of plugins are declared by the plugins themselves. v1beta3 has the fields and defaults of v1. v1beta2 has no
`multiPoint`, so defaults and lists are merged at each point; it has lower default weights, and two addresses that later
versions dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trimtab.config.config_node import ConfigNode
from trimtab.config.registry import DEFAULT_PLUGINS, VOLUME_LIMITS
from trimtab.config.yaml import MappingNode, SequenceNode
from trimtab.core.model.setting import Support


@dataclass(frozen=True, slots=True)
class Field:
    """A field by its path, where `[]` is any item and `POINT` any extension point."""

    path: str
    support: Support
    doc: str


_S, _I, _R = Support.SUPPORTED, Support.IGNORED, Support.REJECTED


def _under(parent: str, *rows: tuple[Support, str, str]) -> tuple[Field, ...]:
    return tuple(Field(f"{parent}{name}", support, doc) for support, name, doc in rows)


FIELDS: tuple[Field, ...] = (
    *_under(
        "",
        (_S, "apiVersion", "kubescheduler.config.k8s.io/v1; v1beta3 and v1beta2 are accepted with a note, see below"),
        (_S, "kind", "must be KubeSchedulerConfiguration"),
        (_I, "parallelism", "all nodes are evaluated at once, in one thread"),
    ),
    *_under(
        "leaderElection.",
        (_S, "leaderElect", "true unless set: only the holder of the lease schedules"),
        (_S, "leaseDuration", "15s unless set; must be longer than renewDeadline"),
        (_S, "renewDeadline", "10s unless set; must be longer than 1.2 × retryPeriod"),
        (_S, "retryPeriod", "2s unless set"),
        (_S, "resourceLock", "must be leases, the only supported lock"),
        (_S, "resourceName", "`trimtab` unless set, but `kube-scheduler` when a profile is called default-scheduler"),
        (_S, "resourceNamespace", "`trimtab` unless set, but `kube-system` when a profile is called default-scheduler"),
    ),
    *_under(
        "clientConnection.",
        (_S, "kubeconfig", "the file with the cluster's address and credentials"),
        (_I, "acceptContentTypes", "responses are always JSON"),
        (_I, "contentType", "requests are always JSON"),
        (_S, "qps", "requests per second; unlimited unless set (50 in kube-scheduler)"),
        (_S, "burst", "requests at once above qps, 100 unless set; no effect without qps"),
    ),
    *_under(
        "",
        (_I, "enableProfiling", "there is no profiling endpoint"),
        (_I, "enableContentionProfiling", "there are no locks to profile"),
        (_I, "percentageOfNodesToScore", "all nodes are always scored, as with 100"),
        (_S, "podInitialBackoffSeconds", "1 unless set"),
        (_S, "podMaxBackoffSeconds", "10 unless set; not less than podInitialBackoffSeconds"),
    ),
    *_under(
        "profiles[].",
        (_S, "schedulerName", "`default-scheduler` unless set; each profile needs its own"),
        (_I, "percentageOfNodesToScore", "all nodes are always scored, as with 100"),
    ),
    *_under(
        "profiles[].plugins.POINT.enabled[].",
        (_S, "name", "a plugin that is not supported yet is rejected here"),
        (_S, "weight", "the weight of its score; 0 counts as 1, a negative one is rejected"),
    ),
    *_under(
        "profiles[].plugins.POINT.disabled[].",
        (_S, "name", "any known plugin, or `*` for all"),
        (_I, "weight", "a disabled plugin has no weight"),
    ),
    *_under(
        "profiles[].pluginConfig[].",
        (_S, "name", "a plugin that is not supported yet is rejected here"),
        (_S, "args", "the plugin's arguments, see below"),
    ),
    *_under(
        "",
        (_R, "extenders", "extenders are not supported yet: remove them, or leave those pods to another scheduler"),
        (_I, "delayCacheUntilActive", "a standby always keeps its cache up to date"),
    ),
)


GROUP = "kubescheduler.config.k8s.io"
VERSION = f"{GROUP}/v1"


@dataclass(frozen=True, slots=True)
class Version:
    """One version; `removed_in` is the release of kube-scheduler that dropped it."""

    name: str
    removed_in: str = ""
    defaults: Mapping[str, int] = field(default_factory=lambda: DEFAULT_PLUGINS)
    multi_point: bool = True
    extra_fields: tuple[Field, ...] = ()
    replaced_plugins: frozenset[str] = frozenset()  # accepted in a file, and replaced by another plugin


@dataclass(frozen=True, slots=True)
class PluginCatalogue:
    """The plugins that a file of this version may name."""

    plugins: Mapping[str, type]
    version: Version


_SERVED = "set by `trimtab run --serve`"
_V1 = Version(VERSION)
_V1BETA3 = Version(f"{GROUP}/v1beta3", "1.29", replaced_plugins=VOLUME_LIMITS)
_V1BETA2 = Version(
    f"{GROUP}/v1beta2",
    "1.28",
    {**DEFAULT_PLUGINS, "TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1},
    multi_point=False,
    extra_fields=(
        Field("healthzBindAddress", _I, _SERVED),
        Field("metricsBindAddress", _I, _SERVED),
    ),
    replaced_plugins=VOLUME_LIMITS,
)
VERSIONS: Mapping[str, Version] = {each.name: each for each in (_V1, _V1BETA3, _V1BETA2)}


def parse_version(node: ConfigNode) -> Version | None:
    """The version of a file, with a note on an older one; None after a problem."""
    name = node.string()
    version = VERSIONS.get(name or "")
    if name is not None and version is None:
        node.error(f"{name[:100]!r} is not supported: write {VERSION}")
    elif version is not None and version.removed_in:
        node.note(
            f"{version.name} is deprecated (removed in kube-scheduler {version.removed_in}): write {VERSION}; "
            "`trimtab config show` prints the converted file"
        )
    return version


def children(parent: str) -> dict[str, Field | None]:
    """The names allowed directly under a path, each with its field unless it is a mapping or list with fields of its own."""
    found: dict[str, Field | None] = {}
    for each in FIELDS:
        if each.path.startswith(parent):
            head, _, rest = each.path.removeprefix(parent).removeprefix(".").partition(".")
            found[head.removesuffix("[]")] = None if rest else each
    return found


def checked_fields(node: ConfigNode, parent: str, extra: Iterable[Field] = ()) -> dict[str, ConfigNode]:
    """The fields set in a mapping; unknown and rejected ones are reported, ignored ones noted."""
    allowed = children(parent) | {field.path: field for field in extra}
    entries = node.fields(allowed) or {}
    for name, each in entries.items():
        field = allowed[name]
        if field is None or _is_empty(each):
            continue
        if field.support is Support.REJECTED:
            each.error(field.doc)
        elif field.support is Support.IGNORED:
            each.note(f"ignored: {field.doc}")
    return entries


def _is_empty(node: ConfigNode) -> bool:
    match node.yaml:
        case SequenceNode(items=()):
            return True
        case MappingNode(entries=entries):
            return not entries
    return False

"""Decides which versions of the file are read, and how the older ones differ from v1; reading them is left to others.

v1beta3 names the same fields and defaults as v1. v1beta2 has no `multiPoint`: defaults and lists meet at each point, the
weights are lower, and two addresses may stand in it that kube-scheduler gave up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.config.config_node import ConfigNode
from trimtab.config.fields import Field, Support
from trimtab.config.registry import DEFAULT_PLUGINS, VOLUME_LIMITS

GROUP = "kubescheduler.config.k8s.io"
VERSION = f"{GROUP}/v1"


@dataclass(frozen=True, slots=True)
class Version:
    """One version; `given_up` is the release of kube-scheduler that no longer reads it."""

    name: str
    removed_in: str = ""
    defaults: Mapping[str, int] = field(default_factory=lambda: DEFAULT_PLUGINS)
    multi_point: bool = True
    extra_fields: tuple[Field, ...] = ()
    replaced_plugins: frozenset[str] = frozenset()  # plugins that may be named and whose work another one does now


@dataclass(frozen=True, slots=True)
class PluginCatalogue:
    """What a file may name: the plugins that are built, and what its version says about them."""

    plugins: Mapping[str, type]
    version: Version


_SERVED = "`trimtab run --serve` says where health and metrics are served"
_V1 = Version(VERSION)
_V1BETA3 = Version(f"{GROUP}/v1beta3", "1.29", replaced_plugins=VOLUME_LIMITS)
_V1BETA2 = Version(
    f"{GROUP}/v1beta2",
    "1.28",
    {**DEFAULT_PLUGINS, "TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1},
    multi_point=False,
    extra_fields=(
        Field("healthzBindAddress", Support.IGNORED, _SERVED),
        Field("metricsBindAddress", Support.IGNORED, _SERVED),
    ),
    replaced_plugins=VOLUME_LIMITS,
)
VERSIONS: Mapping[str, Version] = {each.name: each for each in (_V1, _V1BETA3, _V1BETA2)}


def parse_version(node: ConfigNode) -> Version | None:
    """The version that a file says it has, with a note on an older one; None after a problem."""
    name = node.string()
    version = VERSIONS.get(name or "")
    if name is not None and version is None:
        node.error(f"{name[:100]!r} is not read: write {VERSION}")
    elif version is not None and version.removed_in:
        node.note(
            f"{version.name} is deprecated (kube-scheduler reads it no more since {version.removed_in}): write {VERSION}; "
            "`trimtab config show` prints the file so"
        )
    return version

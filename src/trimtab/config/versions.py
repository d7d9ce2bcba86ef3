"""Decides which versions of the file are read, and how the older ones differ from v1; reading them is left to others.

v1beta3 names the same fields and defaults as v1. v1beta2 has no `multiPoint`: defaults and lists meet at each point, the
weights are lower, and two addresses may stand in it that kube-scheduler gave up.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.config.fields import Fate, Field
from trimtab.config.registry import DEFAULT_PLUGINS, VOLUME_LIMITS
from trimtab.config.spot import Spot

GROUP = "kubescheduler.config.k8s.io"
VERSION = f"{GROUP}/v1"


@dataclass(frozen=True, slots=True)
class Version:
    """One version; `given_up` is the release of kube-scheduler that no longer reads it."""

    name: str
    given_up: str = ""
    defaults: Mapping[str, int] = field(default_factory=lambda: DEFAULT_PLUGINS)
    multi_point: bool = True
    more_fields: tuple[Field, ...] = ()
    left_out: frozenset[str] = frozenset()  # plugins that may be named and whose work another one does now


@dataclass(frozen=True, slots=True)
class Catalogue:
    """What a file may name: the plugins that are built, and what its version says about them."""

    built: Mapping[str, type]
    version: Version


_SERVED = "`trimtab run --serve` says where health and metrics are served"
_V1 = Version(VERSION)
_V1BETA3 = Version(f"{GROUP}/v1beta3", "1.29", left_out=VOLUME_LIMITS)
_V1BETA2 = Version(
    f"{GROUP}/v1beta2",
    "1.28",
    {**DEFAULT_PLUGINS, "TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1},
    multi_point=False,
    more_fields=(
        Field("healthzBindAddress", Fate.IGNORED, _SERVED),
        Field("metricsBindAddress", Fate.IGNORED, _SERVED),
    ),
    left_out=VOLUME_LIMITS,
)
VERSIONS: Mapping[str, Version] = {each.name: each for each in (_V1, _V1BETA3, _V1BETA2)}


def read_version(spot: Spot) -> Version | None:
    """The version that a file says it has, with a note on an older one; None after a problem."""
    name = spot.text()
    version = VERSIONS.get(name or "")
    if name is not None and version is None:
        spot.refuse(f"{name[:100]!r} is not read: write {VERSION}")
    elif version is not None and version.given_up:
        spot.note(
            f"{version.name} is deprecated (kube-scheduler reads it no more since {version.given_up}): write {VERSION}; "
            "`trimtab config show` prints the file so"
        )
    return version

"""CpuRealUsage: prefers nodes that really use little CPU; all but the name of the resource is left to `RealUsage`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.framework.load_scoring.real_usage import RealUsage
from trimtab.core.model.resources import CPU


@dataclass(frozen=True, slots=True)
class CpuRealUsage(RealUsage):
    """By CPU."""

    name: ClassVar[str] = "CpuRealUsage"
    resource: ClassVar[str] = CPU

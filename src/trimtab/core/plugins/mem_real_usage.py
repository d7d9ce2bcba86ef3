"""MemRealUsage: prefers nodes that really use little memory; all but the name of the resource is left to `RealUsage`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from trimtab.core.framework.load_scoring.real_usage import RealUsage
from trimtab.core.model.resources import MEMORY


@dataclass(frozen=True, slots=True)
class MemRealUsage(RealUsage):
    """By memory."""

    name: ClassVar[str] = "MemRealUsage"
    resource: ClassVar[str] = MEMORY

"""The peers' rules for a pod that nobody has measured: an amount from its request and its limit alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from trimtab.core.model.resources import CPU, DEFAULT_CPU_REQUEST, DEFAULT_MEMORY_REQUEST, MEMORY

MIB = 1024 * 1024
DEFAULT_AMOUNTS: Mapping[str, float] = {
    CPU: 250.0,
    MEMORY: 200.0 * MIB,
}  # Koordinator's and Volcano's, for who asks for nothing
TRIMARAN_DEFAULTS: Mapping[str, float] = {CPU: 1000.0, MEMORY: 200.0 * MIB}
NONZERO_DEFAULTS: Mapping[str, float] = {CPU: float(DEFAULT_CPU_REQUEST), MEMORY: float(DEFAULT_MEMORY_REQUEST)}
KOORDINATOR_FACTORS: Mapping[str, float] = {CPU: 0.85, MEMORY: 0.70}
RELATIVE_DEVIATION = 0.5  # no rule says how far off it may be: half of what it says

Rule = Callable[[str, float, float], float]  # resource, request, limit (0: none)


def koordinator(resource: str, request: float, limit: float) -> float:
    """The larger of request and limit, scaled, and not above the limit."""
    whole = max(request, limit)
    scaled = whole * KOORDINATOR_FACTORS.get(resource, 1.0) if whole else DEFAULT_AMOUNTS.get(resource, 0.0)
    return min(scaled, limit) if limit else scaled


def trimaran(resource: str, request: float, limit: float) -> float:
    """The limit, else half as much again as the request, else a core."""
    return limit or 1.5 * request or TRIMARAN_DEFAULTS.get(resource, 0.0)


def volcano(resource: str, request: float, limit: float) -> float:
    """Seven tenths of the request, with a fifth on top for safety."""
    return 0.7 * request * 1.2 if request else DEFAULT_AMOUNTS.get(resource, 0.0)


def requests(resource: str, request: float, limit: float) -> float:
    """As asked for; a little for who asks for nothing, as kube-scheduler scores it."""
    return request or NONZERO_DEFAULTS.get(resource, 0.0)


BY_NAME: Mapping[str, Rule] = {
    "koordinator": koordinator,
    "trimaran": trimaran,
    "volcano": volcano,
    "requests": requests,
}

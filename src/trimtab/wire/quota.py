"""Decodes ResourceQuotas, and says whether one has room for a further pod of a template.

A quota counts only pods that are in all of its scopes. In doubt it counts the pod: a LimitRange may add requests, and a
default PriorityClass the class, that the template does not have. Requests are counted as the scheduler counts them; only the
overhead of a RuntimeClass is unknown, unless the template has it.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from trimtab.core.model.resources import CPU, MEMORY, NANOS, ContainerRequests, PodRequests, pod_requests
from trimtab.wire.decoding import summarize
from trimtab.wire.pod_json import PodSpecShape
from trimtab.wire.pod_template import SpecResources, read_spec_resources
from trimtab.wire.quantity import QuantityError, nanos
from trimtab.wire.requests import Request, quote

Quantities = dict[str, str | int | float]


class _PodSpec(PodSpecShape, frozen=True, rename="camel"):
    active_deadline_seconds: int | None = None
    priority_class_name: str = ""


class PodTemplate(Struct, frozen=True):
    """What quotas count of the pods of a workload."""

    spec: _PodSpec = _PodSpec()

    def needs(self, name: str) -> int:
        """What one pod takes of a quota's resource, in units of 10^-9."""
        if name in ("pods", "count/pods"):
            return nanos(1)
        kind, _, resource = name.partition(".") if "." in name else ("requests", "", name)
        if kind not in ("requests", "limits"):
            return 0
        found = _pod_requests(self._resources())
        amount = dict(found.limits if kind == "limits" else found.amounts).get(resource, 0)
        return amount * (NANOS // 1000 if resource == CPU else NANOS)

    @property
    def best_effort(self) -> bool:
        """Without any request or limit of CPU or memory; overhead is neither."""
        found = _pod_requests(self._resources()._replace(overhead={}))
        return not any(found.limit_of(name) for name in (CPU, MEMORY))

    def _resources(self) -> SpecResources:
        errors: list[str] = []
        found = read_spec_resources(self.spec, {}, False, errors)
        if errors:
            raise QuantityError(f"its pod template: {summarize(errors)}")
        return found


def _pod_requests(found: SpecResources) -> PodRequests:
    """With the requests that the API server sets in each pod: a request that is left out is the limit.

    A pod-level request that is left out is the sum of the containers, and the pod-level limit only if no container has any.
    """
    containers, inits = (list(map(_with_defaults, each)) for each in (found.containers, found.inits))
    of_containers = dict(pod_requests(containers, inits).amounts)
    level = found.pod_level
    missing = {name: limit for name, limit in level.limits.items() if name not in of_containers}
    pod_level = ContainerRequests({**missing, **level.requests}, level.limits)
    return pod_requests(containers, inits, pod_level, found.overhead)


def _with_defaults(each: ContainerRequests) -> ContainerRequests:
    return ContainerRequests({**each.limits, **each.requests}, each.limits, each.sidecar)


class _Expression(Struct, frozen=True, rename="camel"):
    scope_name: str = ""
    operator: str = ""
    values: tuple[str, ...] | None = None

    def counts(self, template: PodTemplate) -> bool:
        spec, values = template.spec, self.values or ()
        match self.scope_name, self.operator:
            case "Terminating", _:
                return spec.active_deadline_seconds is not None
            case "NotTerminating", _:
                return spec.active_deadline_seconds is None
            case "BestEffort", _:
                return template.best_effort
            case "PriorityClass", operator if spec.priority_class_name:
                known = {"In": spec.priority_class_name in values, "NotIn": spec.priority_class_name not in values}
                return known.get(operator, operator != "DoesNotExist")
        return True


class _ScopeSelector(Struct, frozen=True, rename="camel"):
    match_expressions: tuple[_Expression, ...] | None = None


class _QuotaSpec(Struct, frozen=True, rename="camel"):
    scopes: tuple[str, ...] | None = None
    scope_selector: _ScopeSelector | None = None


class _Status(Struct, frozen=True):
    hard: Quantities | None = None
    used: Quantities | None = None


class _Meta(Struct, frozen=True):
    name: str = ""


class _Quota(Struct, frozen=True):
    metadata: _Meta = _Meta()
    spec: _QuotaSpec = _QuotaSpec()
    status: _Status = _Status()

    def counts(self, template: PodTemplate) -> bool:
        named = tuple(_Expression(each, "Exists") for each in self.spec.scopes or ())
        selector = self.spec.scope_selector
        selected = (selector.match_expressions or ()) if selector is not None else ()
        return all(each.counts(template) for each in (*named, *selected))

    def missing(self, template: PodTemplate) -> str:
        """The resource of which it has not enough for one pod more."""
        used = self.status.used or {}
        for name, hard in (self.status.hard or {}).items():
            needed = template.needs(name)
            if needed and nanos(used.get(name, 0)) + needed > nanos(hard):
                return name
        return ""


class _QuotaList(Struct, frozen=True):
    items: tuple[_Quota, ...] = ()


def quotas_request(namespace: str) -> Request:
    return Request("GET", f"/api/v1/namespaces/{quote(namespace)}/resourcequotas")


def exhausted_quota(template: PodTemplate, body: bytes) -> str:
    """The quota in this list that has no room for a further pod, with the resource, in words; empty if there is none.

    Raises QuantityError and `decoding.UNREADABLE`.
    """
    for quota in msgspec.json.decode(body, type=_QuotaList).items:
        missing = quota.missing(template) if quota.counts(template) else ""
        if missing:
            return f"quota {quota.metadata.name} has no room for a further pod: {missing}"
    return ""

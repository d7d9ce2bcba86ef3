"""Whether the secure port can ask the API server about callers; without that it refuses every page but the health checks."""

from __future__ import annotations

import asyncio

from trimtab.apps.doctor.apiserver_checks import ApiServer
from trimtab.apps.doctor.finding import Area, Finding, warning
from trimtab.apps.doctor.rbac_checks import APPLY_FILE, LABELLER_ACCOUNT, SCHEDULER_ACCOUNT, Permission
from trimtab.kube.access_review import SERVICE_ACCOUNT, review, whoami

KUBE_SCHEDULER = "system:kube-scheduler"
_REMEDY = APPLY_FILE.format("rbac-serving.yaml")
PERMISSIONS = (
    Permission("create", "tokenreviews", _REMEDY, "authentication.k8s.io"),
    Permission("create", "subjectaccessreviews", _REMEDY, "authorization.k8s.io"),
    Permission("get", "configmaps", _REMEDY, "", "kube-system", "extension-apiserver-authentication"),
)


async def check_serving(server: ApiServer, account: str) -> tuple[Finding, ...]:
    """For accounts of a cluster, where the secure port is on; `rbac_checks` reports reviews that are not answered."""
    who = account or await whoami(server.transport)
    if not who.startswith(SERVICE_ACCOUNT) and who != KUBE_SCHEDULER:
        return ()
    results = await asyncio.gather(*(review(server.transport, each.attributes, account) for each in PERMISSIONS))
    missing = [each for each, result in zip(PERMISSIONS, results, strict=True) if result.allowed is False]
    if not missing:
        return ()
    targets = ", ".join(f"{each.verb} {each.target}" for each in missing)
    effect = "so the secure port cannot tell who may read /metrics and /explain, and refuses them"
    roles = f", and bind its roles (system:auth-delegator, extension-apiserver-authentication-reader) to {who}"
    others = "" if who in (SCHEDULER_ACCOUNT, LABELLER_ACCOUNT) else roles
    return (warning(Area.RIGHTS, "secure port", f"{who} may not {targets}, {effect}", _REMEDY + others),)

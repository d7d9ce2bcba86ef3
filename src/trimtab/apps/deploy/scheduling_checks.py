"""`trimtab deploy test`: checks on the user's own cluster that pods are scheduled, spread and rejected as they should be.

    nodes ─▶ installation ─▶ secure port ─▶ one pod is bound ─▶ many pods are bound ─▶ anti-affinity holds
    ─▶ an impossible pod says why

If no pod is bound at all, what follows is skipped. The distribution over the nodes is shown and not judged: a profile may
pack on purpose, and a hot node may rightly get nothing. What must hold in any profile is a required anti-affinity.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import NamedTuple

from trimtab.apps.deploy.api_client import ApiClient, DeployError, Forbidden, Object, ObjectRef, join_first
from trimtab.apps.deploy.port_check import check_port
from trimtab.apps.deploy.probe_pods import Bindings, ProbeOptions, create_pods, probe_namespace, probe_pod
from trimtab.apps.deploy.status import Status, read_installation
from trimtab.core.model.node import HOSTNAME

POLL_SECONDS = 0.3
SETTLING_SECONDS = 30.0
REQUESTS = {"cpu": "50m", "memory": "64Mi"}  # large enough to change a node's score, so that the pods spread
IMPOSSIBLE = {"deploy.trimtab.dev/no-node-has-this": "true"}


class CheckResult(NamedTuple):
    """A check's name, whether it passed (None if it was skipped), and what was seen."""

    name: str
    passed: bool | None
    message: str


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """What is checked: pods in their namespace, how many, within how many seconds, and whose installation."""

    probe: ProbeOptions
    installed_in: str
    count: int
    timeout: float


class SchedulingChecks:
    """One run of all checks."""

    def __init__(self, client: ApiClient, options: CheckOptions, bindings: Bindings) -> None:
        self._cluster, self._options, self._bindings = client, options, bindings
        self._deadline = asyncio.get_running_loop().time() + options.timeout
        self._usable: list[str] = []

    @property
    def _seconds_left(self) -> float:
        return max(self._deadline - asyncio.get_running_loop().time(), 0.0)

    async def results(self) -> AsyncIterator[CheckResult]:
        """Each result when it is there."""
        yield await self._check_nodes()
        yield await self._check_installation()
        yield CheckResult("secure port", *await check_port(self._cluster, self._options.installed_in))
        yield (first := await self._check_one_pod())
        if not first.passed:
            for name in ("many pods", "anti-affinity", "impossible pod"):
                yield CheckResult(name, None, "no pod was scheduled")
            return
        yield await self._check_many_pods()
        yield await self._check_anti_affinity()
        yield await self.check_impossible_pod()

    async def _check_nodes(self) -> CheckResult:
        nodes = await self._cluster.list_kind("v1", "Node")
        self._usable = [each["metadata"]["name"] for each in nodes if is_usable(each)]
        message = f"{len(self._usable)} of {len(nodes)} can get pods"
        remedy = "" if self._usable else ": no node is ready, schedulable and without taints"
        return CheckResult("nodes", bool(self._usable), message + remedy)

    async def _check_installation(self) -> CheckResult:
        """Skipped if there is none in this cluster: a scheduler may also run elsewhere."""
        try:
            found = await self._settled_installation()
        except DeployError as error:
            return CheckResult("installation", None, str(error))
        if found.problems:
            return CheckResult("installation", False, join_first(found.problems, 3))
        held = join_first(f"{each.holder} holds {each.lease}" for each in found.leaders) or "no leader election"
        return CheckResult("installation", True, f"version {found.version}, {held}")

    async def _settled_installation(self) -> Status:
        """Its state; right after an installation it takes some seconds until a replica holds the lease."""
        patience = asyncio.get_running_loop().time() + min(SETTLING_SECONDS, self._seconds_left)
        while True:
            found = await read_installation(self._cluster, self._options.installed_in, "--installed-in")
            if not found.problems or asyncio.get_running_loop().time() >= patience:
                return found
            await asyncio.sleep(POLL_SECONDS)

    async def _check_one_pod(self) -> CheckResult:
        (name,) = await self._create("one")
        if await self._bindings.wait_for([name], self._seconds_left):
            return CheckResult("one pod", False, await self._why_pending(name))
        return CheckResult("one pod", True, f"bound to {self._bindings.nodes[name]}")

    async def _check_many_pods(self) -> CheckResult:
        created = await self._create(*(f"many-{index}" for index in range(self._options.count)))
        missing = await self._bindings.wait_for(created, self._seconds_left)
        counts = self._bindings.pods_per_node()
        message = (
            f"{len(created) - len(missing)} of {len(created)} bound, on {len(counts)} of {len(self._usable)} nodes"
        )
        if missing:
            message += f"; {missing[0]}: {await self._why_pending(missing[0])}"
        elif len(counts) == 1 < len(self._usable):
            message += "; if the profile does not pack on purpose, trimtab explain says why"
        return CheckResult("many pods", not missing, message)

    async def _check_anti_affinity(self) -> CheckResult:
        if len(self._usable) < 2:
            return CheckResult("anti-affinity", None, "needs two nodes that can get pods")
        labels = {"deploy.trimtab.dev/pair": self._options.probe.run_id}
        term = {"labelSelector": {"matchLabels": labels}, "topologyKey": HOSTNAME}
        affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        pods = [probe_pod(self._options.probe, f"pair-{index}", labels=labels, affinity=affinity) for index in (1, 2)]
        pair = await create_pods(self._cluster, pods, self._bindings)
        if missing := await self._bindings.wait_for(pair, self._seconds_left):
            return CheckResult("anti-affinity", False, await self._why_pending(missing[0]))
        one, other = (self._bindings.nodes[name] for name in pair)
        return CheckResult("anti-affinity", one != other, f"two pods that exclude each other are on {one} and {other}")

    async def check_impossible_pod(self) -> CheckResult:
        """It must stay pending, with the condition and an Event of this scheduler."""
        pod = probe_pod(self._options.probe, "impossible", nodeSelector=IMPOSSIBLE)
        (name,) = await create_pods(self._cluster, [pod], self._bindings)
        while True:
            found = await self._read_pod(name)
            try:
                event, condition = await self._event(name), scheduled_condition(found)
            except Forbidden as error:
                return CheckResult("impossible pod", None, str(error))
            if name in self._bindings.bound:
                return CheckResult(
                    "impossible pod", False, f"bound to {self._bindings.nodes[name]}, whose labels it excludes"
                )
            if event is not None and condition.get("reason") == "Unschedulable":
                return CheckResult("impossible pod", True, f"stays pending: {condition.get('message', '')}")
            if not self._seconds_left:
                missing = "Event FailedScheduling" if event is None else "condition Unschedulable"
                return CheckResult("impossible pod", False, f"is pending, but has no {missing}")
            await asyncio.sleep(POLL_SECONDS)

    async def _create(self, *stems: str) -> list[str]:
        pods = [probe_pod(self._options.probe, stem, REQUESTS) for stem in stems]
        return await create_pods(self._cluster, pods, self._bindings)

    async def _read_pod(self, name: str) -> Object:
        return await self._cluster.read(ObjectRef("v1", "Pod", name, self._options.probe.namespace)) or {}

    async def _why_pending(self, name: str) -> str:
        condition = scheduled_condition(await self._read_pod(name))
        if condition:
            reason = condition.get("message") or condition.get("reason", "")
            return f"still pending after {self._options.timeout:g} s: {reason}"
        scheduler = self._options.probe.scheduler
        return (
            f"still pending after {self._options.timeout:g} s, and no scheduler has tried it: "
            f"check that one runs for schedulerName {scheduler}"
        )

    async def _event(self, name: str) -> Object | None:
        fields = f"involvedObject.name={name},reason=FailedScheduling"
        events = await self._cluster.list_kind("v1", "Event", self._options.probe.namespace, fields=fields)
        ours = [each for each in events if each.get("reportingComponent") == self._options.probe.scheduler]
        return ours[0] if ours else None


def is_usable(node: Object) -> bool:
    """Whether it is ready, schedulable, and open to pods without tolerations."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in status.get("conditions") or ())
    tainted = any(each["effect"] in ("NoSchedule", "NoExecute") for each in spec.get("taints") or ())
    return ready and not tainted and not spec.get("unschedulable")


def scheduled_condition(pod: Object) -> dict[str, str]:
    """The PodScheduled condition; empty if there is none."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((each for each in conditions if each["type"] == "PodScheduled"), {})


async def run_checks(client: ApiClient, options: CheckOptions, report: Callable[[CheckResult], None]) -> Bindings:
    """Report the results one by one; where the pods went. Cleans up in any case."""
    async with probe_namespace(client, options.probe) as bindings:
        async for result in SchedulingChecks(client, options, bindings).results():
            report(result)
        return bindings

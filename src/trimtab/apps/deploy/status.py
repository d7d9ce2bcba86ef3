"""The state of an installation: objects, replicas, leaders, configuration, and the last warnings."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from trimtab.apps.deploy.api_client import ApiClient, DeployError, Forbidden, Object, ObjectRef, ref_of
from trimtab.apps.deploy.plan import OPERATOR, check_namespace
from trimtab.apps.deploy.recovery import recover_inventory
from trimtab.apps.deploy.release import COMPONENT, LEASES, MANAGED_BY, TRIMTAB, Inventory, inventory_ref, read_inventory
from trimtab.apps.deploy.render import CHECKSUM, CONFIG_KEY, CONFIG_MAP, VERSION, checksum
from trimtab.apps.deploy.rollout import rollout_state, waiting_reasons
from trimtab.wire.decoding import Malformed
from trimtab.wire.lease import get_lease_request, read_lease, seconds_since, seconds_since_renewal

MAX_WARNINGS = 5
WARNING_AGE = 3600.0


@dataclass(frozen=True, slots=True)
class Workload:
    """A Deployment's replicas; `waiting_for` is empty once all are available."""

    name: str
    ready: int
    wanted: int
    version: str
    image: str
    waiting_for: str


@dataclass(frozen=True, slots=True)
class Leader:
    """Who holds a lease; `age` is the seconds since it was renewed, None if nobody holds it."""

    lease: str
    holder: str
    age: float | None
    duration: int
    transitions: int

    @property
    def is_held(self) -> bool:
        return bool(self.holder) and self.age is not None and self.age <= 2 * self.duration


@dataclass(frozen=True, slots=True)
class Status:
    """Everything about one installation; it is healthy if there are no problems."""

    namespace: str
    version: str
    config_name: str
    config_checksum: str
    components: tuple[str, ...]
    objects: int
    missing: tuple[str, ...]
    workloads: tuple[Workload, ...]
    leaders: tuple[Leader, ...]
    warnings: tuple[str, ...]
    problems: tuple[str, ...] = field(default=())


async def read_installation(client: ApiClient, namespace: str, flag: str = "-n") -> Status:
    """The state now; DeployError, which names the flag for another namespace, if nothing is installed."""
    inventory = await read_inventory(client, namespace)
    if inventory is None and (recovered := await recover_inventory(client, namespace)) is not None:
        inventory = replace(recovered, objects=(*recovered.objects, inventory_ref(namespace)))  # which is missing
    inventory = inventory or await _by_labels(client, namespace) or await find_installation(client, namespace, flag)
    found = await asyncio.gather(*map(client.read, inventory.objects))
    missing = tuple(ref for ref, item in zip(inventory.objects, found, strict=True) if item is None)
    deployments = [item for item in found if item is not None and item["kind"] == "Deployment"]
    config = next((each for each in found if each is not None and _is_config(each)), None)
    leaders = await asyncio.gather(*(_read_leader(client, name) for name in inventory.leases))
    workloads = tuple(_workload(each) for each in deployments)
    return Status(
        namespace,
        inventory.version,
        f"template {inventory.config_name}" if inventory.is_template else inventory.config_name,
        checksum(config["data"]) if config is not None else "",
        inventory.components,
        len(inventory.objects),
        tuple(map(str, missing)),
        workloads,
        tuple(leaders),
        (*_edited(inventory, config, deployments), *await _warnings(client, namespace)),
        (*await _losses(client, missing), *_problems(workloads, leaders), *await waiting_reasons(client, namespace)),
    )


async def _by_labels(client: ApiClient, namespace: str) -> Inventory | None:
    """What Helm or kubectl has installed, found by its labels; None without a Deployment."""
    kinds = (("apps/v1", "Deployment"), ("v1", "ConfigMap"), (LEASES, "Lease"))
    found = await asyncio.gather(*(client.list_kind(*kind, namespace, labels=TRIMTAB) for kind in kinds))
    deployments, _, leases = found
    if not deployments:
        return None
    labels = deployments[0]["metadata"]["labels"]
    manager = f"installed by {labels.get(MANAGED_BY) or 'kubectl'}"
    refs = tuple(ref_of(item) for items in found for item in items)
    held = tuple(f"{namespace}/{each['metadata']['name']}" for each in leases)
    return Inventory(refs, labels.get(VERSION, ""), manager, is_template=False, repository="", leases=held)


async def find_installation(client: ApiClient, namespace: str, flag: str = "-n") -> Inventory:
    """The inventory; DeployError with what to do if there is none and none can be recovered."""
    remedy = f"choose another with {flag}, or run trimtab deploy install"
    if await check_namespace(client, namespace) is None:
        raise DeployError(f"namespace {namespace} does not exist: {remedy}")
    inventory = await read_inventory(client, namespace) or await recover_inventory(client, namespace)
    if inventory is not None:
        return inventory
    if (other := await _by_labels(client, namespace)) is not None:
        raise DeployError(f"what is in namespace {namespace} was {other.config_name}: {_remedy(other)}")
    raise DeployError(f"trimtab deploy has installed nothing in namespace {namespace}: {remedy}")


def _remedy(other: Inventory) -> str:
    """How to go on with what Helm or kubectl has installed."""
    use, remove = (
        ("helm upgrade", "helm uninstall")
        if other.config_name.endswith("Helm")
        else ("kubectl apply -k", "kubectl delete -k")
    )
    return f"go on with {use}, or remove it first with {remove} and run trimtab deploy install"


def _is_config(item: Object) -> bool:
    """Whether it is the scheduler's configuration; a Helm release may have given it another name."""
    component = (item["metadata"].get("labels") or {}).get(COMPONENT, "")
    return item["kind"] == "ConfigMap" and component == "scheduler" and CONFIG_KEY in (item.get("data") or {})


def _edited(inventory: Inventory, config: Object | None, deployments: list[Object]) -> Iterator[str]:
    """What somebody has changed since the installation."""
    for each in map(_workload, deployments):
        if inventory.repository and each.image != inventory.image:
            yield f"Deployment {each.name} runs {each.image}, but {inventory.image} was installed"
    annotations = [each["spec"]["template"]["metadata"].get("annotations") or {} for each in deployments]
    sums = [each[CHECKSUM] for each in annotations if CHECKSUM in each]
    if config is not None and sums and checksum(config["data"]) not in sums:
        yield (
            f"ConfigMap {CONFIG_MAP} was changed since the pods were started: they read most fields again by themselves; "
            "trimtab deploy upgrade -c FILE restarts them"
        )


def _workload(item: Object) -> Workload:
    status, container = item.get("status") or {}, item["spec"]["template"]["spec"]["containers"][0]
    version = (item["metadata"].get("labels") or {}).get(VERSION, "")
    counts = status.get("readyReplicas", 0), item["spec"].get("replicas", 1)
    return Workload(item["metadata"]["name"], *counts, version, container["image"], rollout_state(item))


async def _read_leader(client: ApiClient, name: str) -> Leader:
    answer = await client.send(get_lease_request(*name.split("/", 1)))
    lease = read_lease(answer.body) if answer.status == 200 else None
    if lease is None or isinstance(lease, Malformed):
        return Leader(name, "", None, 0, 0)
    age = _not_negative(seconds_since_renewal(lease, time.time()))
    return Leader(name, lease.holder, age, lease.duration_seconds, lease.transitions)


def _not_negative(age: float | None) -> float | None:
    """The other clock may be ahead of ours."""
    return None if age is None else max(age, 0.0)


async def _losses(client: ApiClient, missing: tuple[ObjectRef, ...]) -> list[str]:
    """What to do for each object that is missing, perhaps together with its kind."""
    kinds = [await client.resource(ref.api_version, ref.kind) for ref in missing]
    upgrade = "run trimtab deploy upgrade"
    without = f"install the Prometheus operator again, or {upgrade} --no-monitoring"
    return [
        f"{ref} is missing: {without if kind is None and ref.group == OPERATOR else upgrade}"
        for ref, kind in zip(missing, kinds, strict=True)
    ]


def _problems(workloads: tuple[Workload, ...], leaders: list[Leader]) -> Iterator[str]:
    yield from (f"Deployment {each.name}: {each.waiting_for}" for each in workloads if each.waiting_for)
    yield from (f"lease {each.lease}: nobody holds it" for each in leaders if not each.is_held)


async def _warnings(client: ApiClient, namespace: str) -> tuple[str, ...]:
    """The last Warning events of the namespace, newest first."""
    try:
        events = await client.list_kind("v1", "Event", namespace, fields="type=Warning")
    except Forbidden as error:
        return (f"not shown: {error}",)
    ages = (_not_negative(seconds_since(_event_time(each), time.time())) for each in events)
    aged = [(age, each) for age, each in zip(ages, events, strict=True) if age is not None and age < WARNING_AGE]
    newest = sorted(aged, key=lambda pair: pair[0])[:MAX_WARNINGS]
    return tuple(_describe(age, each) for age, each in newest)


def _event_time(event: Object) -> str:
    series = event.get("series") or {}
    stamps = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return str(next((stamp for stamp in stamps if stamp), event["metadata"]["creationTimestamp"]))


def _describe(age: float, event: Object) -> str:
    about = event.get("involvedObject") or {}
    subject = f"{about.get('kind', '')} {about.get('name', '')}"
    return f"{age:.0f} s ago: {subject}: {event.get('reason', '')}: {event.get('message', '')}"

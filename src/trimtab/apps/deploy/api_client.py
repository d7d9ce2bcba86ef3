"""Objects of any kind on the API server: where they are found, reading them, server-side apply, and deleting them.

Every refusal becomes a DeployError: one sentence with the remedy.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from trimtab.kube.transport import Response, Transport
from trimtab.wire.decoding import decode_part, read_status
from trimtab.wire.outcomes import Throttled, throttle
from trimtab.wire.requests import Request, json_request, quote

Object = dict[str, Any]
Say = Callable[[str], None]

FIELD_MANAGER = "trimtab-deploy"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML
TIMEOUT = 30.0  # admission webhooks may take their time
MAX_LIST_BYTES = 64 << 20
BUSY_TRIES, MAX_BUSY_SECONDS = 5, 10.0
NOT_FOUND, CONFLICT = 404, 409


class DeployError(Exception):
    """Why it stopped and what to do, in a sentence."""


class NotFound(DeployError):
    """Something that the object needs does not exist."""


class Forbidden(DeployError):
    """The account of the kubeconfig may not do it."""


class NothingWritten(DeployError):
    """A refusal after which everything is as before."""


class ObjectRef(NamedTuple):
    """Names one object; a cluster-scoped one has no namespace."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""

    def __str__(self) -> str:
        """As people write it."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"

    @property
    def group(self) -> str:
        """The API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]


class Resource(Struct, frozen=True):
    """A kind as the server's discovery lists it; `name` is the plural in paths."""

    name: str
    kind: str
    namespaced: bool = False
    verbs: tuple[str, ...] = ()


class _ResourceList(Struct, frozen=True):
    resources: tuple[Resource, ...] = ()


class _Cause(Struct, frozen=True):
    message: str = ""
    field: str = ""


class _Details(Struct, frozen=True):
    causes: tuple[_Cause, ...] | None = None


class _Failure(Struct, frozen=True):
    details: _Details | None = None


def ref_of(item: Mapping[str, Any]) -> ObjectRef:
    """The object's name."""
    metadata = item["metadata"]
    return ObjectRef(item["apiVersion"], item["kind"], metadata["name"], metadata.get("namespace") or "")


class ApiClient:
    """An API server, by objects; discovery is asked once per API version."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self._resources: dict[str, asyncio.Task[tuple[Resource, ...]]] = {}

    async def send(self, request: Request, max_bytes: int = MAX_LIST_BYTES) -> Response:
        """Any answer; asks again while the server is too busy (429). Raises Unreachable."""
        for _ in range(BUSY_TRIES):
            answer = await self.transport.send(request, TIMEOUT, max_bytes)
            throttled = throttle(answer.status, answer.headers, answer.body)
            if not isinstance(throttled, Throttled):
                return answer
            await asyncio.sleep(min(throttled.seconds, MAX_BUSY_SECONDS))
        return answer

    async def resource(self, api_version: str, kind: str) -> Resource | None:
        """How the server serves this kind; None if it does not."""
        return next((each for each in await self.resources(api_version) if each.kind == kind), None)

    async def resources(self, api_version: str) -> tuple[Resource, ...]:
        """All kinds of this API version; none if the server does not have it."""
        if api_version not in self._resources:
            self._resources[api_version] = asyncio.create_task(self._discover(api_version))
        return await self._resources[api_version]

    async def _discover(self, api_version: str) -> tuple[Resource, ...]:
        answer = await self.send(Request("GET", root_path(api_version)))
        if answer.status == NOT_FOUND:
            return ()
        if answer.status != 200:
            raise refusal(answer, f"read the kinds of {api_version}")
        found = decode_part(answer.body, _ResourceList, "", [])
        return tuple(each for each in (found.resources if found else ()) if "/" not in each.name)

    async def path(self, ref: ObjectRef) -> str:
        """The object's URL path; raises DeployError if the server does not have its kind."""
        resource = await self.resource(ref.api_version, ref.kind)
        if resource is None:
            raise DeployError(f"the cluster has no kind {ref.kind} of {ref.api_version}")
        return f"{collection_path(ref.api_version, resource, ref.namespace)}/{quote(ref.name)}"

    async def read(self, ref: ObjectRef) -> Object | None:
        """The object; None if it, its namespace or its kind does not exist."""
        if await self.resource(ref.api_version, ref.kind) is None:
            return None
        answer = await self.send(Request("GET", await self.path(ref)))
        if answer.status == NOT_FOUND:
            return None
        return _object(answer, f"read {ref}")

    async def apply(self, item: Object, *, dry_run: bool = False, force: bool = False) -> Object:
        """Server-side apply; the object as the server then has it, or, in a dry run, would have it."""
        ref = ref_of(item)
        query = f"fieldManager={FIELD_MANAGER}&fieldValidation=Strict" + ("&force=true" if force else "")
        path = f"{await self.path(ref)}?{query}" + ("&dryRun=All" if dry_run else "")
        answer = await self.send(json_request("PATCH", path, item, APPLY_PATCH))
        if answer.status == NOT_FOUND:
            raise NotFound(str(refusal(answer, f"apply {ref}")))
        if answer.status == CONFLICT and (conflicts := _conflicts(answer)):
            raise DeployError(
                f"{ref} was changed by others: {conflicts}; undo their change, or take the fields over with --force-conflicts"
            )
        return _object(answer, f"apply {ref}")

    async def dry_run(self, item: Object, *, force: bool = False) -> Object:
        """What apply would result in; the item itself if its namespace, or the role that it binds, does not exist yet."""
        try:
            return await self.apply(item, dry_run=True, force=force)
        except NotFound:
            return item

    async def delete(self, ref: ObjectRef, uid: str = "", propagation: str = "Background") -> bool:
        """Delete it if it is still the one with this UID; false if it was gone already."""
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        if uid:
            options["preconditions"] = {"uid": uid}
        answer = await self.send(json_request("DELETE", await self.path(ref), options))
        if answer.status in (NOT_FOUND, CONFLICT):
            return False
        if answer.status not in (200, 202):
            raise refusal(answer, f"delete {ref}")
        return True

    async def list_resource(
        self, api_version: str, resource: Resource, namespace: str = "", labels: str = "", fields: str = ""
    ) -> list[Object]:
        """All objects of a kind, in one namespace or all; each with its apiVersion and kind, which lists leave out."""
        selectors = {"labelSelector": labels, "fieldSelector": fields}
        query = "&".join(f"{name}={quote(value)}" for name, value in selectors.items() if value)
        path = collection_path(api_version, resource, namespace) + (f"?{query}" if query else "")
        answer = await self.send(Request("GET", path))
        if answer.status == NOT_FOUND:  # its definition is being deleted, and discovery still has it
            return []
        if answer.status != 200:
            raise refusal(answer, f"list {resource.name}")
        items: list[Object] = msgspec.json.decode(answer.body).get("items") or []
        return [{"apiVersion": api_version, "kind": resource.kind, **item} for item in items]

    async def list_kind(
        self, api_version: str, kind: str, namespace: str = "", labels: str = "", fields: str = ""
    ) -> list[Object]:
        """The same by the kind's name; empty if the server does not have the kind."""
        resource = await self.resource(api_version, kind)
        return [] if resource is None else await self.list_resource(api_version, resource, namespace, labels, fields)


def root_path(api_version: str) -> str:
    return f"/apis/{api_version}" if "/" in api_version else f"/api/{api_version}"


def collection_path(api_version: str, resource: Resource, namespace: str) -> str:
    """The URL path of a kind's objects, of one namespace if the kind has namespaces and one is given."""
    scope = f"/namespaces/{quote(namespace)}" if resource.namespaced and namespace else ""
    return f"{root_path(api_version)}{scope}/{resource.name}"


def _object(answer: Response, action: str) -> Object:
    if answer.status not in (200, 201):
        raise refusal(answer, action)
    found: Object = msgspec.json.decode(answer.body)
    return found


def refusal(answer: Response, action: str) -> DeployError:
    """The server's refusal as one sentence with a remedy."""
    message = read_status(answer.body).message.rstrip(".")
    remedies = {
        401: "renew the token or certificate of the kubeconfig",
        403: "use an account that may, or ask an administrator",
        422: "correct the field",
        429: "try again later",
    }
    remedy = remedies.get(answer.status, "see the API server's log" if answer.status >= 500 else "see the message")
    kind = Forbidden if answer.status == 403 else DeployError
    return kind(f"cannot {action}: {answer.status} {message}: {remedy}")


def _conflicts(answer: Response) -> str:
    """`field by manager` for each field that another field manager owns; empty for other kinds of conflicts."""
    found = decode_part(answer.body, _Failure, "", [])
    causes = (found.details.causes if found and found.details else None) or ()
    return ", ".join(f"{each.field} ({each.message})" for each in causes if each.field)


def join_first(items: Iterable[object], most: int = 6) -> str:
    """The first few, separated by commas, and how many more, for a message."""
    listed = [str(item) for item in items]
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return ", ".join(listed[:most]) + more

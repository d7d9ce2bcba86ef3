"""Asks the API server for every right that a plan needs, before anything is written."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from trimtab.apps.deploy.api_client import ApiClient, DeployError, Object, ObjectRef, join_first, ref_of
from trimtab.kube.access_review import review, whoami

MOST_SHOWN = 12


class Right(NamedTuple):
    """A verb on a kind of object, in one namespace or in the cluster."""

    group: str
    resource: str
    namespace: str
    verb: str

    @property
    def target(self) -> str:
        """What the verb applies to, as in messages of the API server."""
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{name} in {self.namespace}" if self.namespace else name


async def check_reading(client: ApiClient, items: Sequence[Object]) -> None:
    """Raise DeployError if the objects cannot even be read; then also with what else would be missing."""
    needed = [(verb, ref_of(each)) for each in items for verb in ("get", "create", "patch")]
    denied = await _denied(client, needed)
    if any(each.verb == "get" for each in denied):
        await _refuse(client, denied)


async def check_writing(
    client: ApiClient, items: Sequence[Object], live: Mapping[ObjectRef, Object], stale: Iterable[ObjectRef]
) -> None:
    """Raise DeployError unless everything may be applied, and what is stale deleted."""
    applied = [(verb, ref) for ref in map(ref_of, items) for verb in _verbs(ref, live)]
    await require_rights(client, [*applied, *(("delete", ref) for ref in stale)])


def _verbs(ref: ObjectRef, live: Mapping[ObjectRef, Object]) -> tuple[str, ...]:
    """A server-side apply is a patch, which also creates."""
    return ("patch",) if ref in live else ("create", "patch")


async def require_rights(client: ApiClient, needed: Iterable[tuple[str, ObjectRef]]) -> None:
    """Raise DeployError with every verb on a resource that we may not use."""
    if denied := await _denied(client, needed):
        await _refuse(client, denied)


async def _denied(client: ApiClient, needed: Iterable[tuple[str, ObjectRef]]) -> list[Right]:
    """Those that the server denies; one that it does not judge is left to the dry run."""
    rights = sorted({await _right(client, verb, ref) for verb, ref in needed})
    answers = await asyncio.gather(*(review(client.transport, each._asdict()) for each in rights))
    return [right for right, answer in zip(rights, answers, strict=True) if answer.allowed is False]


async def _right(client: ApiClient, verb: str, ref: ObjectRef) -> Right:
    resource = await client.resource(ref.api_version, ref.kind)
    return Right(ref.group, resource.name if resource is not None else ref.kind, ref.namespace, verb)


async def _refuse(client: ApiClient, denied: Sequence[Right]) -> None:
    verbs: dict[str, list[str]] = {}
    for each in denied:
        verbs.setdefault(each.target, []).append(each.verb)
    listed = join_first((f"{'/'.join(found)} {target}" for target, found in verbs.items()), MOST_SHOWN)
    who = await whoami(client.transport)
    raise DeployError(f"{who} may not {listed}: use an account that may, or ask an administrator; nothing was changed")

"""What `trimtab pause` and `trimtab resume` share: which leases, the connection, and exit codes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from trimtab.cli.deploy.connection import BAD_INPUT, FAILED, fail, say

if TYPE_CHECKING:
    from trimtab.apps.kill_switch import LeaseName
    from trimtab.kube.credentials import Credentials

F = TypeVar("F", bound=Callable[..., Any])


def lease_option(function: F) -> F:
    """`--lease`, once or several times."""
    return click.option(
        "--lease",
        "leases",
        multiple=True,
        metavar="NAMESPACE/NAME",
        callback=_parse,
        help="The lease of the process that moves pods; default: trimtab/trimtab-rescheduler and trimtab/trimtab.",
    )(function)


def _parse(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    parts = [tuple(value.split("/")) for value in values]
    wrong = next((value for value, each in zip(values, parts, strict=True) if len(each) != 2 or not all(each)), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong!r} is not NAMESPACE/NAME such as trimtab/trimtab-rescheduler")
    return tuple((namespace, name) for namespace, name in parts)


def switch_moves(kubeconfig: str, context: str, leases: tuple[tuple[str, str], ...], reason: str | None) -> None:
    """Set or remove the annotation, and say what was done."""
    from trimtab.apps.kill_switch import USUAL, LeaseName, SwitchFailed
    from trimtab.kube.credentials import CredentialsError, find_credentials
    from trimtab.kube.transport import Unreachable

    try:
        credentials = find_credentials(kubeconfig, context)
    except CredentialsError as error:
        fail(str(error), BAD_INPUT)
    try:
        named = tuple(LeaseName(*each) for each in leases) or USUAL
        lines = asyncio.run(_connected(credentials, named, reason))
    except SwitchFailed as error:
        fail(str(error), FAILED)
    except Unreachable as error:
        fail(f"the API server {credentials.server} ({credentials.origin}) cannot be reached: {error}", FAILED)
    for line in lines:
        say(line)


async def _connected(credentials: Credentials, leases: tuple[LeaseName, ...], reason: str | None) -> list[str]:
    from trimtab.apps.kill_switch import switch
    from trimtab.kube.transport import AiohttpTransport

    async with AiohttpTransport(credentials, rate_limiter=None) as transport:
        return await switch(transport, leases, reason)

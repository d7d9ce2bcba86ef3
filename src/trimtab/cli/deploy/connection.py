"""What the commands of `trimtab deploy` share: options for the cluster, the connection, exit codes, and the question."""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

import click

from trimtab.config.diagnostics import printable

if TYPE_CHECKING:
    from trimtab.apps.deploy.api_client import ApiClient
    from trimtab.kube.credentials import Credentials

FAILED, BAD_INPUT, INTERRUPTED, TERMINATED = 1, 2, 130, 143

_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
F = TypeVar("F", bound=Callable[..., Any])


class Target(NamedTuple):
    """Which cluster, and which namespace of it."""

    kubeconfig: str
    context: str
    namespace: str


def cluster_options(function: F) -> F:
    """`--kubeconfig` and `--context`."""
    where = "Path of the kubeconfig; default: KUBECONFIG, in-cluster, ~/.kube/config."
    function = click.option("--context", default="", help="The context of the kubeconfig; default: its current one.")(
        function
    )
    return click.option("-kubeconfig", "--kubeconfig", default="", help=where)(function)


def parse_namespace(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """A name that a namespace can have."""
    if _NAMESPACE.fullmatch(value) is None:
        raise click.BadParameter(f"{value[:100]!r} is not the name of a namespace: use a-z, 0-9 and '-', 63 at most")
    return value


def namespace_option(function: F) -> F:
    """`-n`, the namespace of the installation."""
    return click.option(
        "-n",
        "--namespace",
        default="trimtab",
        show_default=True,
        callback=parse_namespace,
        help="Namespace of the installation.",
    )(function)


yes_option = click.option("-y", "--yes", is_flag=True, help="Do not ask.")


def timeout_option(seconds: str, what: str) -> Callable[[F], F]:
    """`--timeout`, as seconds or a duration."""
    return click.option("--timeout", default=seconds, show_default=True, callback=parse_seconds, help=what)


def parse_seconds(ctx: click.Context, param: click.Parameter, value: str) -> float:
    """A duration such as 5m, or a number of seconds, as deploy.sh took it."""
    from trimtab.core.model.duration import parse_duration

    seconds = float(value) if value.isdecimal() else parse_duration(value)
    if seconds is None or not 0 < seconds <= 86400:
        raise click.BadParameter(f"{value!r} is not a duration such as 300 or 5m")
    return seconds


def fail(message: str, code: int = FAILED) -> NoReturn:
    """Print the sentence to stderr and exit."""
    click.echo(printable(f"trimtab: {message.rstrip('.')}."), err=True)
    sys.exit(code)


def count(number: int, word: str) -> str:
    """`1 change`, `2 changes`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def say(message: str) -> None:
    click.echo(printable(message))


def run(target: Target, work: Callable[[ApiClient, Credentials], Awaitable[int]]) -> NoReturn:
    """Connect, do the work, and exit with its code; every failure is one sentence."""
    from trimtab.apps.deploy.api_client import DeployError
    from trimtab.kube.credentials import CredentialsError, find_credentials
    from trimtab.kube.transport import Unreachable

    try:
        credentials = find_credentials(target.kubeconfig, target.context)
    except CredentialsError as error:
        fail(str(error), BAD_INPUT)
    try:
        sys.exit(asyncio.run(_connected(credentials, work)))
    except DeployError as error:
        fail(str(error))
    except Unreachable as error:
        where = f"the API server {credentials.server} ({credentials.origin})"
        fail(f"{where} cannot be reached: {error}: check its address, and whether it runs")
    except KeyboardInterrupt:
        fail("interrupted", INTERRUPTED)
    except asyncio.CancelledError:
        fail("terminated", TERMINATED)


async def _connected(credentials: Credentials, work: Callable[[ApiClient, Credentials], Awaitable[int]]) -> int:
    from trimtab.apps.deploy.api_client import ApiClient
    from trimtab.kube.transport import AiohttpTransport

    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # cleans up as after Ctrl-C
    async with AiohttpTransport(credentials, rate_limiter=None) as transport:
        return await work(ApiClient(transport), credentials)


def confirm(question: str, yes: bool) -> None:
    """Ask, unless `yes`; exit without a terminal or after a no."""
    if yes:
        return
    if not sys.stdin.isatty():
        fail("nothing was changed: there is no terminal to ask on; add --yes to go on without being asked", BAD_INPUT)
    if not click.confirm(question):
        fail("nothing was changed")

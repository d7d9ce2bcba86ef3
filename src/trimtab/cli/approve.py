"""`trimtab approve`: lets a rescheduler with `mode: approve` carry out the plan that waits."""

from __future__ import annotations

import asyncio
import sys
import time

import click

from trimtab.cli.plan import PlanCommand, fail
from trimtab.cli.styled_lines import print_lines

NO_TERMINAL = "standard input is no terminal, so nobody can be asked: name the plan, `trimtab approve ID`"


@click.command("approve", cls=PlanCommand)
@click.argument("plan_id", metavar="[ID]", default="")
@click.option(
    "--kubeconfig", default="", help="Path of the kubeconfig; default: KUBECONFIG, in-cluster, ~/.kube/config."
)
@click.option("--namespace", default="trimtab", show_default=True, help="Of the rescheduler's lease and ledger.")
def command(plan_id: str, kubeconfig: str, namespace: str) -> None:
    """Print the plan that waits for approval, and approve it: without ID, after asking.

    The rescheduler looks every few seconds, and carries the plan out if no newer one has replaced it and it is not older
    than ten minutes. Needs get and patch of the ConfigMap trimtab-moves.

    Exit code: 0 approved; 1 not, or no plan waits.
    """
    from trimtab.apps.apply.plan_file import CannotApply
    from trimtab.kube.credentials import CredentialsError

    try:
        asyncio.run(_approve(plan_id, kubeconfig, namespace))
    except (CannotApply, CredentialsError) as error:
        fail(str(error))
    except (KeyboardInterrupt, EOFError):
        fail("not approved")


async def _approve(plan_id: str, kubeconfig: str, namespace: str) -> None:
    from trimtab.apps.apply.approval import approve, check_id, waiting_plan
    from trimtab.apps.apply.cluster_checks import ApiServer
    from trimtab.apps.plan.text import earlier_plan_lines
    from trimtab.kube.credentials import find_credentials
    from trimtab.kube.transport import AiohttpTransport

    credentials = find_credentials(kubeconfig)
    transport = AiohttpTransport(credentials, rate_limiter=None)
    try:
        server = ApiServer(transport, credentials)
        plan = await waiting_plan(server, namespace)
        check_id(plan, plan_id)
        print_lines(earlier_plan_lines(f"Plan {plan.id}", plan, time.time()))
        if not plan_id:
            _ask()
        await approve(server, namespace, plan)
    finally:
        await transport.close()
    click.echo(f"Approved: `trimtab history` and the log of the rescheduler say how far plan {plan.id} has come.")


def _ask() -> None:
    from trimtab.apps.apply.plan_file import CannotApply

    if not sys.stdin.isatty():
        raise CannotApply(NO_TERMINAL)
    if input("Approve it? Only 'yes' is accepted: ").strip() != "yes":
        raise CannotApply("not approved")

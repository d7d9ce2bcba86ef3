"""`trimtab deploy status`, `logs` and `uninstall`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from trimtab.cli.deploy.connection import (
    FAILED,
    Target,
    cluster_options,
    confirm,
    count,
    namespace_option,
    run,
    say,
    timeout_option,
    yes_option,
)

if TYPE_CHECKING:
    from trimtab.apps.deploy.api_client import ApiClient
    from trimtab.apps.deploy.status import Leader, Status
    from trimtab.apps.deploy.uninstall import Removal
    from trimtab.kube.credentials import Credentials


@click.command()
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True, help="The format."
)
@namespace_option
@cluster_options
def status(kubeconfig: str, context: str, namespace: str, output: str) -> None:
    """Show replicas, leader, version, configuration, warnings and what is missing; exit 1 if anything is wrong."""

    async def shown(client: ApiClient, credentials: Credentials) -> int:
        from trimtab.apps.deploy.status import read_installation

        found = await read_installation(client, namespace)
        if output == "json":
            click.echo(_as_json(found))
        else:
            _show(found)
        return FAILED if found.problems else 0

    run(Target(kubeconfig, context, namespace), shown)


def _as_json(found: Status) -> str:
    import msgspec

    return json.dumps({**msgspec.to_builtins(found), "healthy": not found.problems}, indent=2)


def _show(found: Status) -> None:
    say(f"namespace      {found.namespace}, version {found.version}")
    say(f"configuration  {found.config_name}, checksum {found.config_checksum or 'unknown'}")
    say(f"components     {', '.join(found.components) or 'none'}")
    for each in found.workloads:
        say(f"deployment     {each.name}: {each.ready} of {each.wanted} replicas ready, {each.image}")
    for leader in found.leaders:
        say(f"lease          {leader.lease}: {_holder(leader)}")
    say(f"objects        {found.objects - len(found.missing)} of {found.objects}")
    for warning in found.warnings:
        say(f"warning        {warning}")
    for problem in found.problems:
        say(f"PROBLEM        {problem}")
    say("healthy" if not found.problems else f"not healthy: {count(len(found.problems), 'problem')}")


def _holder(leader: Leader) -> str:
    if leader.age is None:
        return "nobody has ever held it"
    holder = leader.holder or "released"
    return f"{holder}, renewed {leader.age:.0f} s ago, {count(leader.transitions, 'change')} of leader"


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on with new lines, also of new pods, until Ctrl-C.")
@click.option("--tail", type=click.IntRange(0), default=50, show_default=True, help="Lines of each replica.")
@click.option("--component", type=click.Choice(["scheduler", "labeller", "rescheduler"]), help="Only these replicas.")
@click.option("--timestamps", is_flag=True, help="With the time of each line.")
@namespace_option
@cluster_options
def logs(
    kubeconfig: str, context: str, namespace: str, follow: bool, tail: int, component: str | None, timestamps: bool
) -> None:
    """Print the logs of all replicas, each line with the pod's name."""

    async def printed(client: ApiClient, credentials: Credentials) -> int:
        from trimtab.apps.deploy.plan import check_namespace
        from trimtab.apps.deploy.pod_logs import LogOptions, print_logs

        await check_namespace(client, namespace)
        options = LogOptions(namespace, tail, follow, component or "", timestamps)
        await print_logs(client, options, say, lambda message: click.echo(message, err=True))
        return 0

    run(Target(kubeconfig, context, namespace), printed)


@click.command()
@yes_option
@click.option("-d", "--dry-run", is_flag=True, help="Show what would go, and stop.")
@timeout_option("300", "How long to wait until the pods are gone.")
@namespace_option
@cluster_options
def uninstall(kubeconfig: str, context: str, namespace: str, yes: bool, dry_run: bool, timeout: float) -> None:
    """Remove the installation: only what trimtab deploy made, and its leases and labels on nodes."""

    async def removed(client: ApiClient, credentials: Credentials) -> int:
        from trimtab.apps.deploy.kustomization import manifests_folder, read_everything
        from trimtab.apps.deploy.uninstall import carry_out_removal, plan_removal

        kinds = {(item["apiVersion"], item["kind"]) for item in read_everything(manifests_folder())}
        removal = await plan_removal(client, namespace, kinds)
        _show_removal(removal)
        if dry_run or not removal.has_work:
            return 0
        confirm(f"Remove all of this from the cluster {credentials.server}?", yes)
        await carry_out_removal(client, removal, timeout, say)
        return 0

    run(Target(kubeconfig, context, namespace), removed)


def _show_removal(removal: Removal) -> None:
    for ref in (*removal.refs, *removal.made):
        say(f"delete {ref}")
    if removal.removes_namespace:
        say(f"delete Namespace {removal.namespace}")
    for note in removal.notes:
        say(f"note: {note}")
    if not removal.has_work:
        say(f"trimtab deploy has installed nothing in namespace {removal.namespace}")

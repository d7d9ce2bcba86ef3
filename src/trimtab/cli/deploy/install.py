"""`trimtab deploy install`, `upgrade` and `manifests`: show the difference, ask, apply, and wait until it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli.deploy.connection import (
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
from trimtab.cli.deploy.release_options import ConfigSource, ReleaseFlags, build_release, release_options
from trimtab.config.diagnostics import printable

if TYPE_CHECKING:
    from trimtab.apps.deploy.api_client import ApiClient, Object
    from trimtab.apps.deploy.plan import ObjectChange, Plan
    from trimtab.apps.deploy.release import Inventory, Release
    from trimtab.kube.credentials import Credentials

COLOURS = {"+": "green", "-": "red", "@": "cyan"}


@dataclass(frozen=True, slots=True)
class ApplyFlags:
    """How the plan is carried out."""

    yes: bool
    dry_run: bool
    verbose: bool
    force_conflicts: bool
    timeout: float
    test_afterwards: bool


def apply_options(function: click.decorators.FC) -> click.decorators.FC:
    """The flags of install and upgrade."""
    options = (
        yes_option,
        click.option(
            "-d", "--dry-run", is_flag=True, help="Show the difference, by a dry run on the server, and stop."
        ),
        click.option("-v", "--verbose", is_flag=True, help="Show new objects in full, too."),
        click.option("--force-conflicts", is_flag=True, help="Take over fields that others have changed."),
        click.option("-T", "--test", "test_afterwards", is_flag=True, help="Run trimtab deploy test afterwards."),
        timeout_option("300", "How long to wait until all replicas are available."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@click.command()
@release_options
@apply_options
@namespace_option
@cluster_options
def install(kubeconfig: str, context: str, namespace: str, **flags: Any) -> None:
    """Install Trimtab, exactly as the flags say. Run again, it completes or changes what is there."""
    given, applying = _split(namespace, flags)
    release = build_release(given)
    run(Target(kubeconfig, context, namespace), lambda client, credentials: _install(client, release, applying))


@click.command()
@release_options
@apply_options
@namespace_option
@cluster_options
def upgrade(kubeconfig: str, context: str, namespace: str, **flags: Any) -> None:
    """Upgrade to this version, with the settings of the installation except those that flags change."""
    given, applying = _split(namespace, flags)

    async def upgraded(client: ApiClient, credentials: Credentials) -> int:
        from trimtab.apps.deploy.status import find_installation

        installed = await find_installation(client, namespace)
        live = None if given.config is not None else await _live_config(client, namespace, installed)
        return await _install(client, build_release(given, installed, live), applying)

    run(Target(kubeconfig, context, namespace), upgraded)


def _split(namespace: str, flags: dict[str, Any]) -> tuple[ReleaseFlags, ApplyFlags]:
    """Flags of what is installed, and of how."""
    how = {name: flags.pop(name) for name in ApplyFlags.__slots__}
    return ReleaseFlags(namespace, **flags), ApplyFlags(**how)


async def _live_config(client: ApiClient, namespace: str, installed: Inventory) -> ConfigSource:
    """The template of this version by its name; a file's text from the cluster, because the file may be gone."""
    from trimtab.apps.deploy.api_client import DeployError, ObjectRef
    from trimtab.apps.deploy.render import CONFIG_KEY, CONFIG_MAP
    from trimtab.cli.config import templates

    if installed.is_template and installed.config_name in (written := templates()):
        return ConfigSource(installed.config_name, written[installed.config_name])
    found = await client.read(ObjectRef("v1", "ConfigMap", CONFIG_MAP, namespace))
    data: dict[str, str] = (found or {}).get("data") or {}
    if CONFIG_KEY not in data:
        raise DeployError(
            f"ConfigMap {namespace}/{CONFIG_MAP} has no {CONFIG_KEY}: say with -c which configuration to use"
        )
    others = tuple((name, text) for name, text in data.items() if name != CONFIG_KEY)
    return ConfigSource(installed.config_name, data[CONFIG_KEY], False, others)


@click.command()
@release_options
@namespace_option
def manifests(namespace: str, **flags: Any) -> None:
    """Print the objects that install would apply, as YAML, for GitOps or kubectl."""
    from trimtab.apps.deploy.object_diff import to_yaml

    release = build_release(ReleaseFlags(namespace, **flags))
    for note in release.notes:
        click.echo(printable(f"note: {note}"), err=True)
    for item in _rendered(release):
        click.echo("---\n" + to_yaml(item), nl=False)


def _rendered(release: Release) -> list[Object]:
    from trimtab.apps.deploy.api_client import DeployError
    from trimtab.apps.deploy.kustomization import manifests_folder, read_manifests
    from trimtab.apps.deploy.render import render
    from trimtab.cli.deploy.connection import fail

    try:
        return render(read_manifests(manifests_folder(), release.components), release)
    except DeployError as error:
        fail(str(error))


async def _install(client: ApiClient, release: Release, flags: ApplyFlags) -> int:
    from trimtab.apps.deploy.plan import make_plan
    from trimtab.apps.deploy.rollout import wait_for_rollout

    plan = await make_plan(client, release, _rendered(release), flags.force_conflicts)
    _show(plan, flags.verbose)
    if flags.dry_run:
        return 0
    if plan.writes:
        confirm(f"Apply {_count(plan.writes)} in namespace {release.namespace}?", flags.yes)
        await _carry_out(client, plan, flags)
    await wait_for_rollout(client, plan.deployments, flags.timeout, say)
    say(f"{release.image} runs in namespace {release.namespace}, with the configuration {release.config_name}")
    return await _test(client, release, flags)


async def _carry_out(client: ApiClient, plan: Plan, flags: ApplyFlags) -> None:
    """Carry out the plan; if that is interrupted, say how to go on."""
    from trimtab.apps.deploy.api_client import NothingWritten
    from trimtab.apps.deploy.install import carry_out

    try:
        await carry_out(client, plan, say, flags.timeout, flags.force_conflicts)
    except NothingWritten:
        raise
    except BaseException:
        click.echo("not all of it was written: the same command, run again, completes it", err=True)
        raise


async def _test(client: ApiClient, release: Release, flags: ApplyFlags) -> int:
    from trimtab.cli.deploy.check import NAMESPACE, check_cluster, check_options

    if not flags.test_afterwards:
        return 0
    options = await check_options(client, NAMESPACE, release.namespace, "", "", timeout=flags.timeout)
    return await check_cluster(client, options)


def _show(plan: Plan, verbose: bool) -> None:
    from trimtab.apps.deploy.release import INVENTORY

    for note in plan.notes:
        say(f"note: {note}")
    for change in plan.writes:
        click.secho(f"{change.verb} {change.ref}", bold=True)
        if verbose or (change.verb == "update" and change.ref.name != INVENTORY):
            _show_difference(change)
    say(f"{_count(plan.writes)}, {len(plan.changes) - len(plan.writes)} objects stay as they are")


def _show_difference(change: ObjectChange) -> None:
    from trimtab.apps.deploy.object_diff import unified_diff

    for line in unified_diff(change.before, change.after, str(change.ref)):
        click.secho(printable(line), fg=COLOURS.get(line[:1]))


def _count(changes: Sequence[ObjectChange]) -> str:
    return count(len(changes), "change") if changes else "no changes"

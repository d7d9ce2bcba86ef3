"""`trimtab deploy test`: a pass/fail check on the user's own cluster, or a load test with latency percentiles."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import click

from trimtab.cli.deploy.connection import FAILED, Target, cluster_options, parse_namespace, parse_seconds, run, say

if TYPE_CHECKING:
    from trimtab.apps.deploy.api_client import ApiClient
    from trimtab.apps.deploy.load_test import LoadResult
    from trimtab.apps.deploy.scheduling_checks import CheckOptions, CheckResult
    from trimtab.kube.credentials import Credentials

NAMESPACE, INSTALLED_IN, SCHEDULER = "trimtab-test", "trimtab", "trimtab"
COUNT, TIMEOUT = 20, "300"
RESULT = {True: "PASS", False: "FAIL", None: "skip"}


@click.command()
@click.option(
    "-n",
    "--namespace",
    default=NAMESPACE,
    show_default=True,
    callback=parse_namespace,
    help="For the pods; made and removed if it is not there.",
)
@click.option("--count", type=click.IntRange(1, 5000), default=COUNT, show_default=True, help="How many pods.")
@click.option(
    "-t", "--timeout", default=TIMEOUT, show_default=True, callback=parse_seconds, help="For all checks together."
)
@click.option("-s", "--scheduler-name", default="", help="spec.schedulerName of the pods; default: the installation's.")
@click.option("--pod-image", default="", help="What the pods run; default: nothing, no image is pulled.")
@click.option(
    "--installed-in",
    default=INSTALLED_IN,
    show_default=True,
    callback=parse_namespace,
    help="Namespace of the installation.",
)
@click.option(
    "--load", type=click.IntRange(1, 20000), metavar="N", help="A load test with N pods, instead of the checks."
)
@click.option("-v", "--verbose", is_flag=True, help="Show where each pod went.")
@cluster_options
def test(
    kubeconfig: str,
    context: str,
    namespace: str,
    count: int,
    timeout: float,
    scheduler_name: str,
    pod_image: str,
    installed_in: str,
    load: int | None,
    verbose: bool,
) -> None:
    """Check that pods are scheduled, on this cluster; what is created is removed again, also after Ctrl-C."""

    async def tested(client: ApiClient, credentials: Credentials) -> int:
        options = await check_options(client, namespace, installed_in, scheduler_name, pod_image, count, timeout)
        if load is None:
            return await check_cluster(client, options, verbose)
        return await _load_test(client, options, load)

    run(Target(kubeconfig, context, namespace), tested)


async def check_options(
    client: ApiClient,
    namespace: str,
    installed_in: str,
    scheduler: str,
    image: str,
    count: int = COUNT,
    timeout: float = float(TIMEOUT),
) -> CheckOptions:
    """The options of one run; without a scheduler's name, the first profile of what is installed."""
    from trimtab.apps.deploy.probe_pods import ProbeOptions
    from trimtab.apps.deploy.scheduling_checks import CheckOptions

    name = scheduler or await _installed_scheduler(client, installed_in)
    return CheckOptions(ProbeOptions(namespace, name, secrets.token_hex(3), image), installed_in, count, timeout)


async def _installed_scheduler(client: ApiClient, namespace: str) -> str:
    from trimtab.apps.deploy.api_client import ObjectRef
    from trimtab.apps.deploy.render import CONFIG_KEY, CONFIG_MAP

    found = await client.read(ObjectRef("v1", "ConfigMap", CONFIG_MAP, namespace))
    data: dict[str, str] = (found or {}).get("data") or {}
    if CONFIG_KEY not in data:
        return SCHEDULER
    return _first_profile(data, f"ConfigMap {namespace}/{CONFIG_MAP}")


def _first_profile(data: dict[str, str], place: str) -> str:
    """Its scheduler's name; to test another scheduler instead would prove nothing, so a file that is wrong is an error."""
    from trimtab.apps.deploy.api_client import DeployError
    from trimtab.apps.deploy.render import CONFIG_KEY
    from trimtab.apps.plugins import PluginError
    from trimtab.cli.deploy.release_options import parse_config_map
    from trimtab.config.diagnostics import ConfigError

    try:
        profiles = parse_config_map(data, CONFIG_KEY).settings.profiles
    except (ConfigError, PluginError) as error:
        first = str(error).partition("\n")[0]
        raise DeployError(f"{place}: {first}: correct it, or name the scheduler with -s") from None
    return profiles[0].name if profiles else SCHEDULER


async def check_cluster(client: ApiClient, options: CheckOptions, verbose: bool = False) -> int:
    """Print each result; the exit code."""
    from trimtab.apps.deploy.scheduling_checks import run_checks

    results: list[CheckResult] = []

    def report(result: CheckResult) -> None:
        results.append(result)
        say(f"{RESULT[result.passed]}  {result.name}: {result.message}")

    say(f"schedulerName {options.probe.scheduler}, pods in namespace {options.probe.namespace}")
    bindings = await run_checks(client, options, report)
    _show_pods(bindings.pods_per_node())
    if verbose:
        for pod, node in sorted(bindings.nodes.items()):
            say(f"  {pod} → {node}")
    failed = [each.name for each in results if each.passed is False]
    say(f"failed: {', '.join(failed)}" if failed else "passed")
    return FAILED if failed else 0


def _show_pods(counts: dict[str, int]) -> None:
    if counts:
        say("pods per node:")
    width = max(map(len, counts), default=0)
    for node, count in counts.items():
        say(f"  {node:<{width}}  {count}")


async def _load_test(client: ApiClient, options: CheckOptions, count: int) -> int:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from trimtab.apps.deploy.load_test import run_load_test

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        created, bound = (progress.add_task(word, total=count) for word in ("created", "bound"))

        def report(made: int, placed: int) -> None:
            progress.update(created, completed=made)
            progress.update(bound, completed=placed)

        result = await run_load_test(client, options.probe, count, options.timeout, report)
    _show_load(result)
    return 0 if result.bound == count else FAILED


def _show_load(result: LoadResult) -> None:
    from trimtab.apps.deploy.load_test import percentile

    say(f"{result.bound} of {result.count} pods bound in {result.seconds:.1f} s, {result.rate:.1f} pods/s")
    if result.latencies:
        figures = ", ".join(f"p{each} {percentile(result.latencies, each):.3f} s" for each in (50, 90, 99))
        say(f"created → bound: {figures}, longest {result.latencies[-1]:.3f} s")
    _show_pods(result.pods_per_node)

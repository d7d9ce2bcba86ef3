"""`trimtab snapshot -o FILE`: writes the objects and the load of a live cluster to a file, for the simulator."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.flags import Duration
from trimtab.config.diagnostics import printable
from trimtab.core.model.duration import DAY

if TYPE_CHECKING:
    from trimtab.apps.snapshot.take import Snapshot, SnapshotOptions

BAD_INPUT = 2
SUFFIXES = (".json", ".json.gz")
STEP = 300.0
MAX_STEPS = 11_000  # of a Prometheus series, in one answer


@click.command("snapshot")
@click.option(
    "-o", "--output", "file", type=click.Path(path_type=Path), required=True, help="FILE.json.gz, or FILE.json."
)
@click.option(
    "--config",
    type=click.Path(),
    help="The file of `trimtab run`, for its metric sources; without it no usage is read.",
)
@click.option("--kubeconfig", default="", help="Overrides clientConnection.kubeconfig.")
@click.option("--history", type=Duration(), help="Also read what nodes and pods have used, such as 24h.")
@click.option("--step", type=Duration(), default=STEP, show_default="5m", help="Between two values of the history.")
@click.option("--hash-names", is_flag=True, help="Replace names, label values and images by keyed hashes.")
@click.option("--skip-forbidden", is_flag=True, help="Leave out kinds that may not be listed, instead of failing.")
def command(
    file: Path,
    config: str | None,
    kubeconfig: str,
    history: float | None,
    step: float,
    hash_names: bool,
    skip_forbidden: bool,
) -> None:
    """Write a snapshot of the cluster: objects, usage and, if asked, history. Only gets and lists.

    The file has the fields that scheduling reads, and no others: no environment, arguments, ConfigMaps or Secrets.

    Exit code: 0 written, 1 the cluster could not be read, 2 invalid flags, configuration or kubeconfig.
    """
    from trimtab.apps.snapshot.measurements import HistoryOptions
    from trimtab.apps.snapshot.take import SnapshotOptions
    from trimtab.cli.run import scheduler_configuration

    _check_file(file)
    _check_history(history, step)
    configuration = scheduler_configuration(config)
    past = HistoryOptions(history, step) if history is not None else None
    options = SnapshotOptions(configuration, past, hash_names, skip_forbidden, _progress)
    sys.exit(_run(options, kubeconfig or configuration.client_connection.kubeconfig, file))


def _check_file(file: Path) -> None:
    from trimtab.apps.atomic_file import why_not_writable

    if not file.name.endswith(SUFFIXES):
        raise click.BadParameter(f"{file} must end in .json.gz or .json", param_hint="--output")
    if reason := why_not_writable(file):
        raise click.BadParameter(f"{file} cannot be written: {reason}", param_hint="--output")


def _check_history(history: float | None, step: float) -> None:
    if not 1 <= step <= DAY:
        raise click.BadParameter("must be between 1s and 24h", param_hint="--step")
    if history is not None and not step <= history <= MAX_STEPS * step:
        raise click.BadParameter(f"must be between one and {MAX_STEPS:,} times --step", param_hint="--history")


def _progress(message: str) -> None:
    if sys.stderr.isatty():
        click.echo(f"{message} …", err=True)


def _run(options: SnapshotOptions, kubeconfig: str, file: Path) -> int:
    from trimtab.apps.snapshot.objects import SnapshotFailed
    from trimtab.apps.snapshot.take import run
    from trimtab.kube.credentials import CredentialsError, find_credentials

    try:
        snapshot, size = run(options, find_credentials(kubeconfig), file)
    except CredentialsError as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
        return BAD_INPUT
    except SnapshotFailed as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
        return 1
    except OSError as error:
        click.echo(printable(f"trimtab: {file} cannot be written: {error.strerror or error}."), err=True)
        return 1
    for note in snapshot.notes:
        click.echo(printable(f"note: {note}"), err=True)
    click.echo(printable(_summary(snapshot, size, file)))
    return 0


def _summary(snapshot: Snapshot, size: int, file: Path) -> str:
    counts = {kind: len(items) for kind, items in snapshot.objects.items()}
    nodes, pods = counts.pop("nodes"), counts.pop("pods")
    parts = [f"{nodes} nodes, {pods} pods, {sum(counts.values())} other objects"]
    if snapshot.usage is not None:
        parts.append(f"usage of {len(snapshot.usage.nodes)} nodes and {len(snapshot.usage.pods)} pods")
    if snapshot.history is not None:
        parts.append(f"history of {snapshot.history.steps} steps")
    if snapshot.metadata.missing:
        parts.append(f"without {', '.join(snapshot.metadata.missing)}")
    return f"wrote {file} ({size / 1024:.1f} KiB): {'; '.join(parts)}"

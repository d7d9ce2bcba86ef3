"""`trimtab whatif`: answers one question about a cluster, live or from a snapshot, by simulation."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import click

from trimtab.config.diagnostics import ConfigError, did_you_mean, printable
from trimtab.core.model.duration import DAY

if TYPE_CHECKING:
    from trimtab.config.configuration import Configuration
    from trimtab.core.settings import Settings
    from trimtab.kube.credentials import Credentials
    from trimtab.sim.scenario import Scenario
    from trimtab.sim.snapshot_file import ClusterSnapshot

BAD_INPUT, WORSE, INTERRUPTED = 2, 1, 130
LIVE = "the cluster"
HISTORY, STEP = DAY, 300.0  # what is read of a live cluster, if a source has it


@dataclass(frozen=True)
class Flags:
    """The questions, of which one is asked."""

    drained: tuple[str, ...]
    add_nodes: int | None
    remove_nodes: int | None
    manifests: tuple[str, ...]
    policy: str | None
    zones: bool

    def asked(self) -> int:
        every = (self.drained, self.add_nodes, self.remove_nodes, self.manifests, self.policy, self.zones)
        return sum(bool(each) for each in every)


@dataclass(frozen=True)
class ChangedScenario:
    """The changed scenario, the settings that go with it, and the question in words."""

    question: str
    scenario: Scenario
    settings: Settings


@click.command("whatif")
@click.option("--snapshot", type=click.Path(), help="A file of `trimtab snapshot`; without it the live cluster.")
@click.option("--config", type=click.Path(), help="The file of `trimtab run`: its profiles and metric sources.")
@click.option("--kubeconfig", default="", help="Overrides clientConnection.kubeconfig.")
@click.option("--drain", "drained", metavar="NODE", multiple=True, help="What if this node, or several, were drained?")
@click.option("--add-nodes", type=click.IntRange(1, 10_000), metavar="N", help="What if there were N nodes more?")
@click.option("--remove-nodes", type=click.IntRange(1), metavar="N", help="What if the N emptiest nodes were removed?")
@click.option(
    "--pod", "manifests", metavar="FILE", multiple=True, help="What if the pods of this manifest were created?"
)
@click.option(
    "--policy", metavar="NAME|FILE", help="What if this policy (see `trimtab simulate --list`) had placed every pod?"
)
@click.option("--zones", is_flag=True, help="Is there room for each zone (without zones: each node) to fail?")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    snapshot: str | None,
    config: str | None,
    kubeconfig: str,
    drained: tuple[str, ...],
    add_nodes: int | None,
    remove_nodes: int | None,
    manifests: tuple[str, ...],
    policy: str | None,
    zones: bool,
    as_json: bool,
) -> None:
    """Simulate a change of the cluster: what would be pending, and how hot would nodes get? Only reads.

    Pods go on as they were measured; one that was not measured counts with its requests, if its node's sample leaves as much.

    Exit code: 0, or 1 if the change leaves more pods pending, cannot be completed or loses pods, 2 if there is no answer, 130
    if interrupted.
    """
    from trimtab.cli.run import scheduler_configuration

    flags = Flags(drained, add_nodes, remove_nodes, manifests, policy, zones)
    if flags.asked() != 1:
        raise click.UsageError("ask one question: --drain, --add-nodes, --remove-nodes, --pod, --policy or --zones")
    try:
        sys.exit(_ask(flags, scheduler_configuration(config), snapshot, kubeconfig, as_json=as_json))
    except KeyboardInterrupt:  # which click ends with 1, as if there were an answer
        click.echo("\ntrimtab: interrupted: there is no answer", err=True)
        sys.exit(INTERRUPTED)


def _ask(flags: Flags, configuration: Configuration, snapshot: str | None, kubeconfig: str, *, as_json: bool) -> int:
    from trimtab.apps.simulate.policies import trusting_samples

    cluster = _cluster(snapshot, configuration, kubeconfig)
    scenario = _scenario(cluster, snapshot or LIVE)
    settings = trusting_samples(configuration.settings, scenario)
    if flags.zones:
        _note_stopping(scenario, settings)
        return _answer_zones(scenario, settings, as_json)
    change = _change(scenario, settings, flags)
    _note_stopping(scenario, settings, change.settings)
    return _answer(scenario, settings, change, as_json)


def _fail(message: str) -> NoReturn:
    for line in message.splitlines():
        click.echo(printable(f"trimtab: {line}"), err=True)
    sys.exit(BAD_INPUT)


def _note(text: str) -> None:
    click.echo(printable(f"note: {text}"), err=True)


# --- the cluster


def _cluster(snapshot: str | None, configuration: Configuration, kubeconfig: str) -> ClusterSnapshot:
    from trimtab.apps.snapshot.objects import SnapshotFailed
    from trimtab.kube.credentials import CredentialsError, find_credentials
    from trimtab.sim.snapshot_file import SnapshotError, read_snapshot

    try:
        if snapshot is not None:
            return read_snapshot(snapshot)
        return _snapshot_now(configuration, find_credentials(kubeconfig or configuration.client_connection.kubeconfig))
    except (SnapshotError, SnapshotFailed, CredentialsError, OSError) as error:
        _fail(str(error))


def _snapshot_now(configuration: Configuration, credentials: Credentials) -> ClusterSnapshot:
    """As `trimtab snapshot` takes it; raises SnapshotFailed and OSError."""
    from trimtab.apps.snapshot.measurements import HistoryOptions
    from trimtab.apps.snapshot.take import SnapshotOptions, read_cluster

    history = HistoryOptions(HISTORY, STEP) if configuration.trimtab.sources else None
    return read_cluster(SnapshotOptions(configuration, history), credentials)


def _scenario(cluster: ClusterSnapshot, name: str) -> Scenario:
    from trimtab.sim.snapshot_scenario import scenario_of

    if not cluster.nodes:
        _fail(f"{name} has no nodes, so there is nothing to simulate")
    scenario = scenario_of(cluster, name)
    for note in scenario.notes:
        _note(note)
    return scenario


def _note_stopping(scenario: Scenario, *used: Settings) -> None:
    from trimtab.sim.snapshot_scenario import stopping_kinds

    if kinds := dict.fromkeys(kind for settings in used for kind in stopping_kinds(scenario, settings)):
        _note(f"nothing is scheduled without {', '.join(kinds)}: a plugin reads them for every pod")


# --- the question


def _change(scenario: Scenario, settings: Settings, flags: Flags) -> ChangedScenario:
    from trimtab.apps.simulate.policies import trusting_samples
    from trimtab.apps.whatif.text import counted
    from trimtab.sim import whatif
    from trimtab.sim.snapshot_scenario import place_again

    if flags.drained:
        _check_nodes("--drain", flags.drained, scenario)
        changed = whatif.drain(scenario, flags.drained)
        return ChangedScenario(f"{_joined(dict.fromkeys(flags.drained))} were drained", changed, settings)
    if flags.add_nodes:
        question = f"there were {counted(flags.add_nodes, 'node')} more"
        return ChangedScenario(question, whatif.add_nodes(scenario, flags.add_nodes), settings)
    if flags.remove_nodes:
        return _without_nodes(scenario, settings, flags.remove_nodes)
    if flags.manifests:
        return _with_pods(scenario, settings, flags.manifests)
    policy = flags.policy or ""
    chosen = trusting_samples(_policy(policy).settings, scenario)
    return ChangedScenario(f"{policy} had placed every pod", place_again(scenario), chosen)


def _policy(given: str) -> Configuration:
    """A file or, as for `trimtab simulate`, the name of a template or of a shipped policy."""
    from trimtab.apps.plugins import PluginError
    from trimtab.apps.simulate.policies import find_policy, is_file_name, read_configuration
    from trimtab.cli.run import scheduler_configuration

    if is_file_name(given):
        return scheduler_configuration(given)
    try:
        return read_configuration(find_policy(given))
    except (ConfigError, PluginError) as error:
        _fail(str(error))


def _joined(names: Iterable[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _check_nodes(flag: str, names: Iterable[str], scenario: Scenario) -> None:
    known = {each.node.name for each in scenario.nodes}
    for name in names:
        if name not in known:
            _fail(f"{flag}: there is no node {name!r}{did_you_mean(name, known)}")


def _without_nodes(scenario: Scenario, settings: Settings, count: int) -> ChangedScenario:
    from trimtab.apps.whatif.text import counted
    from trimtab.sim.whatif import remove_nodes, workers

    if count >= (there := len(workers(scenario))):
        _fail(f"--remove-nodes: the cluster has {counted(there, 'worker node')}, and at least one must stay")
    changed, names = remove_nodes(scenario, count)
    return ChangedScenario(f"{_joined(names)} were removed", changed, settings)


def _with_pods(scenario: Scenario, settings: Settings, files: tuple[str, ...]) -> ChangedScenario:
    from trimtab.apps.whatif.manifests import read_manifests
    from trimtab.sim.whatif import add_pods

    try:
        found = [read_manifests(file) for file in files]
    except ConfigError as error:
        _fail(str(error))
    for note in (note for each in found for note in each.notes):
        _note(note)
    pods = [pod for each in found for pod in each.pods]
    _check_nodes("--pod", [pod.node_name for pod in pods if pod.node_name], scenario)
    changed = add_pods(scenario, pods)
    return ChangedScenario(f"the pods of {_joined(files)} were created", changed, settings)


# --- the answer


def _answer(scenario: Scenario, settings: Settings, change: ChangedScenario, as_json: bool) -> int:
    import msgspec

    from trimtab.apps.whatif.text import answer_lines
    from trimtab.sim.whatif import is_worse, moved, simulate

    before, after = simulate(scenario, settings), simulate(change.scenario, change.settings)
    worse = is_worse(before, after)
    elsewhere = moved(scenario, after) if change.settings is not settings else None
    if as_json:
        answer = {"question": change.question, "worse": worse, "moved": elsewhere, "before": before, "after": after}
        click.echo(msgspec.json.encode(answer).decode())
    else:
        for line in answer_lines(change.question, before, after, elsewhere):
            click.echo(printable(line))
    return WORSE if worse else 0


def _answer_zones(scenario: Scenario, settings: Settings, as_json: bool) -> int:
    import msgspec

    from trimtab.apps.whatif.text import failure_lines
    from trimtab.sim.whatif import fail_each, failure_domains

    answers = fail_each(scenario, settings, failure_domains(scenario), _progress)
    worse = not all(each.survived for each in answers)
    if as_json:
        answer = {"question": "each zone or node failed", "worse": worse, "answers": answers}
        click.echo(msgspec.json.encode(answer).decode())
    else:
        for line in failure_lines(answers):
            click.echo(printable(line))
    return WORSE if worse else 0


def _progress(domain: str) -> None:
    if sys.stderr.isatty():
        click.echo(printable(f"simulating the failure of {domain} …"), err=True)

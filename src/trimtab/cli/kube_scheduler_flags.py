"""Every other flag of kube-scheduler 1.35: what Trimtab has is honoured, the rest is accepted, and one note lists it.

As in kube-scheduler, flags of leader election and of the log override the file of --config, and deprecated flags do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from trimtab.cli.flags import Boolean, Duration, Flag

if TYPE_CHECKING:
    from trimtab.config.configuration import Configuration, LeaderElection

MISC, DEPRECATED, ELECTION, LOGS = "Misc flags", "Deprecated flags", "Leader election flags", "Logs flags"
DEBUG_VERBOSITY = 4  # from here on kube-scheduler logs what is debug output here
TEXT = click.STRING
UNSCHEDULABLE_WAIT = "pod-max-in-unschedulable-pods-duration"

HONOURED = (
    Flag(MISC, "master", TEXT, "Address of the API server, in place of the kubeconfig's."),
    Flag(MISC, "write-config-to", TEXT, "Write the configuration, with these flags, to this file and exit."),
    Flag(ELECTION, "leader-elect", Boolean(), "Lead only while holding the lease; default true."),
    Flag(ELECTION, "leader-elect-lease-duration", Duration(), "How long a lease is valid; default 15s."),
    Flag(ELECTION, "leader-elect-renew-deadline", Duration(), "How long to try to renew it; default 10s."),
    Flag(ELECTION, "leader-elect-retry-period", Duration(), "How long to wait between tries; default 2s."),
    Flag(ELECTION, "leader-elect-resource-lock", click.Choice(["leases"]), "Only leases."),
    Flag(ELECTION, "leader-elect-resource-name", TEXT, "Name of the lease."),
    Flag(ELECTION, "leader-elect-resource-namespace", TEXT, "Namespace of the lease."),
    Flag(LOGS, "logging-format", click.Choice(["text", "json"]), "Overrides logging.format."),
    Flag(LOGS, "v", click.IntRange(0), f"Verbosity: {DEBUG_VERBOSITY} and more is --log-level debug.", ("-v",)),
    Flag(DEPRECATED, "kube-api-qps", click.FLOAT, "Requests per second to the API server; not with --config."),
    Flag(DEPRECATED, "kube-api-burst", click.IntRange(0), "Burst of such requests; not with --config."),
    Flag(DEPRECATED, UNSCHEDULABLE_WAIT, Duration(), "After which time a pod is tried again in any case; default 1m."),
)
# The comments give the reasons. Flags that switch something are listed apart, as they need no value.
WITHOUT_EFFECT = (
    # Metrics are never hidden, and their labels have few values.
    *("allow-metric-labels", "allow-metric-labels-manifest", "disabled-metrics", "show-hidden-metrics-for-version"),
    # Trimtab has no feature gates and emulates no other version.
    *("emulated-version", "feature-gates", "min-compatibility-version"),
    # It serves HTTP/1.1 and speaks JSON to the API server.
    *("http2-max-streams-per-connection", "kube-api-content-type"),
    # Each log line is written at once, and levels are not set by source file.
    *("log-flush-frequency", "log-json-info-buffer-size", "log-text-info-buffer-size", "vmodule"),
    # Headers that name a user are never read, so no front proxy needs to be trusted.
    *("requestheader-allowed-names", "requestheader-client-ca-file", "requestheader-extra-headers-prefix"),
    *("requestheader-group-headers", "requestheader-uid-headers", "requestheader-username-headers"),
    # There is one serving certificate; probes and scrapers need no other name.
    "tls-sni-cert-key",
)
SWITCHES_WITHOUT_EFFECT = (
    # There are no /debug/pprof pages, no HTTP/2, and one log stream.
    *("contention-profiling", "disable-http2-serving", "log-json-split-stream", "log-text-split-stream", "profiling"),
    # Sockets always have SO_REUSEADDR, which is what it sets.
    "permit-address-sharing",
)
IGNORED = (
    *(Flag("", name, TEXT, "", hidden=True) for name in WITHOUT_EFFECT),
    *(Flag("", name, Boolean(), "", hidden=True) for name in SWITCHES_WITHOUT_EFFECT),
)
KUBE_SCHEDULER_FLAGS = (*HONOURED, *IGNORED)
NOT_WITH_A_FILE = ("kube-api-qps", "kube-api-burst")
EPILOG = (
    "Other flags of kube-scheduler 1.35 are accepted and have no effect: "
    + ", ".join(f"--{name}" for name in sorted((*WITHOUT_EFFECT, *SWITCHES_WITHOUT_EFFECT)))
    + "."
)

# Flags that kube-scheduler once had, and ours that people try; each with what to write instead.
REFUSED = {
    "--address": "removed in Kubernetes 1.24: use --bind-address",
    "--port": "removed in Kubernetes 1.24: use --secure-port, or --health-probe-bind-address for plain probes",
    "--algorithm-provider": "removed in Kubernetes 1.23: write profiles in the file of --config",
    "--policy-config-file": "removed in Kubernetes 1.23: write profiles in the file of --config",
    "--policy-configmap": "removed in Kubernetes 1.23: write profiles in the file of --config",
    "--policy-configmap-namespace": "removed in Kubernetes 1.23: write profiles in the file of --config",
    "--use-legacy-policy-config": "removed in Kubernetes 1.23: write profiles in the file of --config",
    "--scheduler-name": "removed in Kubernetes 1.23: write profiles[].schedulerName in the file of --config",
    "--lock-object-name": "removed in Kubernetes 1.23: use --leader-elect-resource-name",
    "--lock-object-namespace": "removed in Kubernetes 1.23: use --leader-elect-resource-namespace",
    "--hard-pod-affinity-symmetric-weight": "removed in Kubernetes 1.23: write InterPodAffinityArgs.hardPodAffinityWeight",
    **{
        f"--{name}": "removed in Kubernetes 1.26: the log goes to stderr, see --logging-format and --log-level"
        for name in ("logtostderr", "alsologtostderr", "stderrthreshold", "log-dir", "log-file", "one-output")
    },
    "--apply": "a flag of trimtab labeller",
    "--prom": "a flag of trimtab labeller: write a source in the file of --config",
}


def overrides(flags: Mapping[str, Any], has_file: bool, configuration: Configuration) -> Configuration:
    """The configuration with what the flags say; raises UsageError if that makes no sense."""
    from trimtab.config.trimtab.settings import LoggingSettings

    leader = _leader_election(flags, configuration.leader_election)
    connection = configuration.client_connection
    if not has_file:
        connection = replace(connection, **_given(flags, qps="kube_api_qps", burst="kube_api_burst"))
    logging: LoggingSettings = replace(configuration.trimtab.logging, **_given(flags, format="logging_format"))
    settings, wait = configuration.settings, flags[UNSCHEDULABLE_WAIT.replace("-", "_")]
    if wait is not None:
        settings = replace(settings, max_unschedulable_wait=_positive(wait, f"--{UNSCHEDULABLE_WAIT}"))
    document = replace(configuration.trimtab, logging=logging)
    return replace(
        configuration, settings=settings, leader_election=leader, client_connection=connection, trimtab=document
    )


def _given(flags: Mapping[str, Any], **names: str) -> dict[str, Any]:
    return {field: flags[name] for field, name in names.items() if flags[name] is not None}


def _positive(seconds: float, flag: str) -> float:
    if seconds <= 0:
        raise click.BadParameter(f"{seconds:g}s is not above 0", param_hint=flag)
    return seconds


def _leader_election(flags: Mapping[str, Any], file: LeaderElection) -> LeaderElection:
    leader = replace(
        file,
        **_given(
            flags,
            enabled="leader_elect",
            lease_duration="leader_elect_lease_duration",
            renew_deadline="leader_elect_renew_deadline",
            retry_period="leader_elect_retry_period",
            name="leader_elect_resource_name",
            namespace="leader_elect_resource_namespace",
        ),
    )
    if leader != file and leader.enabled:
        _check_times(leader)
    return leader


def _check_times(leader: LeaderElection) -> None:
    from trimtab.config.kube_scheduler import JITTER_FACTOR

    lease, renew, retry = leader.lease_duration, leader.renew_deadline, leader.retry_period
    if lease <= renew:
        raise click.UsageError(
            f"--leader-elect-lease-duration ({lease:g}s) must exceed --leader-elect-renew-deadline ({renew:g}s)"
        )
    if renew <= JITTER_FACTOR * _positive(retry, "--leader-elect-retry-period"):
        raise click.UsageError(
            f"--leader-elect-renew-deadline ({renew:g}s) must exceed {JITTER_FACTOR} × "
            f"--leader-elect-retry-period ({retry:g}s)"
        )


def log_level(flags: Mapping[str, Any]) -> str:
    """The level that -v asks for; empty if it is not given."""
    verbosity = flags["v"]
    return "" if verbosity is None else "debug" if verbosity >= DEBUG_VERBOSITY else "info"


def ignored_flags(flags: Mapping[str, Any], has_file: bool) -> Iterator[str]:
    """The given flags that have no effect, those last that the file overrides."""
    yield from (f"--{each.name}" for each in IGNORED if flags[each.parameter] is not None)
    for each in HONOURED:
        if has_file and each.name in NOT_WITH_A_FILE and flags[each.parameter] is not None:
            yield f"--{each.name} (clientConnection of --config decides)"

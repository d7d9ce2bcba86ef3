"""kube-scheduler's flags on `trimtab run`: every one is accepted, and has its effect or is named in one note."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner

from tests.cli.kube_scheduler_flag_list import FLAGS
from tests.config.config_files import HEAD
from trimtab.cli import main
from trimtab.cli.kube_scheduler_flags import IGNORED, ignored_flags, overrides
from trimtab.cli.run import command
from trimtab.config.configuration import Configuration
from trimtab.config.kube_scheduler import default_configuration
from trimtab.kube.credentials import Credentials, find_credentials

VALUES = {
    "duration": "20s",
    "int": "1",
    "int32": "1",
    "float32": "1.5",
    "ip": "127.0.0.1",
    "Level": "2",
    "quantity": "4Ki",
    "version[=true]": "raw",
}
SPECIAL = {"leader-elect-resource-lock": "leases", "logging-format": "json", "tls-min-version": "VersionTLS12"}
SPECIAL["tls-cipher-suites"] = "TLS_AES_128_GCM_SHA256"
ENDS_AT_ONCE = ("help", "version")


def parse(*arguments: str) -> dict[str, Any]:
    """The values of a command line, without running it."""
    return command.make_context("run", [*arguments]).params


def spellings(name: str, kind: str) -> list[list[str]]:
    """The ways to write a flag that pflag takes."""
    if not kind:
        return [[f"--{name}"], [f"--{name}=false"], [f"--{name.replace('-', '_')}=true"]]
    value = SPECIAL.get(name, VALUES.get(kind, "text"))
    return [[f"--{name}={value}"], [f"--{name}", value]]


@pytest.mark.parametrize(("name", "kind"), [each for each in FLAGS if each[0] not in ENDS_AT_ONCE])
def test_every_flag_is_accepted(name: str, kind: str) -> None:
    """With a space or `=` before its value, and switches with and without one."""
    parameter = {"config": "file"}.get(name, name.replace("-", "_"))
    for arguments in spellings(name, kind):
        assert parse(*arguments)[parameter] is not None


@pytest.mark.parametrize("arguments", [["-h"], ["--help"], ["-help"]])
def test_help_has_our_options_first(arguments: list[str]) -> None:
    """Then the groups of kube-scheduler, in its order, and at the end what has no effect."""
    output = CliRunner().invoke(main, ["run", *arguments]).output
    heads = ["Options:", "Secure serving flags:", "Authentication flags:", "Leader election flags:", "Logs flags:"]
    places = [output.index(head) for head in heads]
    assert sorted(places) == places
    assert output.index("--config PATH") < places[1] and "have no effect" in output[places[-1] :]


@pytest.mark.parametrize(
    ("arguments", "printed"), [(["--version"], "trimtab, version "), (["--version=raw"], "kubernetes: 1.35")]
)
def test_the_version(arguments: list[str], printed: str) -> None:
    """Printed before anything else is read."""
    done = CliRunner().invoke(main, ["run", *arguments, "--config", "/nonexistent"])
    assert (0, True) == (done.exit_code, printed in done.output)


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--port=0", "--port: removed in Kubernetes 1.24: use --secure-port"),
        ("--address=0.0.0.0", "--address: removed in Kubernetes 1.24: use --bind-address"),
        ("--policy-config-file=x", "write profiles in the file of --config"),
        ("--logtostderr=true", "--logtostderr: removed in Kubernetes 1.26"),
        ("--apply", "--apply: a flag of trimtab labeller"),
        ("--secureport=1", "--secure-port"),
        ("--bind-address=here", "'here' is not an IP address: give one of this machine's, or 0.0.0.0 for all"),
        ("--tls-min-version=1.2", "--tls-min-version: '1.2' is unknown: write VersionTLS12 or VersionTLS13"),
        ("--tls-cipher-suites=TLS_AES_128_GCM_SHA", "did you mean TLS_AES_128_GCM_SHA256?"),
        ("--tls-cipher-suites=TLS_RSA_WITH_RC4_128_SHA", "only weak cipher suites"),
        ("--health-probe-bind-address=8080", "'8080' is not HOST:PORT"),
        ("--leader-elect-resource-lock=endpoints", "leases"),
        ("--leader-elect-lease-duration=soon", "'soon' is not a duration"),
        ("--leader-elect-lease-duration=5s", "must exceed --leader-elect-renew-deadline (10s)"),
        ("--leader-elect-retry-period=9s", "must exceed 1.2 × --leader-elect-retry-period (9s)"),
        ("--pod-max-in-unschedulable-pods-duration=0", "0s is not above 0"),
        ("--authorization-always-allow-paths=/a*b", "'/a*b' has a * that is not at its end"),
        ("--write-config-to=/nonexistent/x", "/nonexistent/x: No such file or directory"),
    ],
)
def test_what_cannot_be_used(flag: str, words: str) -> None:
    """Exit code 2, with the reason and the right flag or value."""
    done = CliRunner().invoke(main, ["run", flag])
    assert (2, True) == (done.exit_code, words in done.output), done.output


def test_flags_override_the_file_as_in_kube_scheduler() -> None:
    """Leader election and the log do; deprecated flags of the connection only without a file."""
    flags = parse(
        *("--leader-elect=false", "--leader-elect-resource-name=mine", "--logging-format=json"),
        *("--kube-api-qps=7", "--kube-api-burst=9", "--pod-max-in-unschedulable-pods-duration=5m"),
    )

    def applied(has_file: bool) -> Configuration:
        return overrides(flags, has_file, default_configuration())

    found = applied(has_file=False)
    assert (False, "mine", "trimtab") == (
        found.leader_election.enabled,
        found.leader_election.name,
        found.leader_election.namespace,
    )
    assert ("json", 300.0) == (found.trimtab.logging.format, found.settings.max_unschedulable_wait)
    assert (7.0, 9) == (found.client_connection.qps, found.client_connection.burst)
    assert default_configuration().client_connection == applied(has_file=True).client_connection
    assert default_configuration().leader_election == overrides(parse(), True, default_configuration()).leader_election


def test_one_note_has_all_flags_without_effect() -> None:
    """Each by its name; none if there are none."""
    flags = parse("--profiling=false", "--feature-gates=A=true", "--kube-api-qps=7", "--leader-elect")
    assert ["--feature-gates", "--profiling"] == [*ignored_flags(flags, False)]
    expected = ["--feature-gates", "--profiling", "--kube-api-qps (clientConnection of --config decides)"]
    assert expected == [*ignored_flags(flags, True)]
    assert [] == [*ignored_flags(parse(), True)]
    assert {each.name for each in IGNORED} <= {name for name, _ in FLAGS}


def test_the_note_is_one_line_of_the_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, at level info."""
    monkeypatch.setattr("trimtab.apps.logs.configure", lambda settings: None)
    caplog.set_level(logging.INFO)
    arguments = ["--kubeconfig", "/nonexistent", "--profiling", "--vmodule=a=1", "--v=2"]
    assert 2 == CliRunner().invoke(main, ["run", *arguments]).exit_code
    lines = [each.getMessage() for each in caplog.records if "no effect" in each.getMessage()]
    assert ["flags of kube-scheduler that have no effect here: flags=--vmodule, --profiling"] == lines


@pytest.mark.parametrize(
    ("arguments", "level"),
    [
        ((), "info"),
        (("-v=2",), "info"),
        (("-v", "4"), "debug"),
        (("-v10",), "debug"),
        (("--v=5", "--log-level=error"), "error"),
    ],
)
def test_verbosity_is_the_log_level(arguments: tuple[str, ...], level: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From 4 on it is debug; our own flag wins."""
    seen: list[str] = []
    monkeypatch.setattr("trimtab.apps.logs.configure", lambda settings: seen.append(settings.level))
    CliRunner().invoke(main, ["run", "--kubeconfig", "/nonexistent", *arguments])
    assert [level] == seen


def test_the_configuration_is_written(tmp_path: Path) -> None:
    """With the flags in it, and nothing is run."""
    file, target = tmp_path / "in.yaml", tmp_path / "out.yaml"
    file.write_text(HEAD + "leaderElection: {resourceName: theirs}\n")
    arguments = ["--config", str(file), "--leader-elect-lease-duration=30s", "--write-config-to", str(target)]
    assert 0 == CliRunner().invoke(main, ["run", *arguments]).exit_code
    written = next(yaml.safe_load_all(target.read_text()))["leaderElection"]
    assert ("theirs", "30s") == (written["resourceName"], written["leaseDuration"])


def test_a_recording_needs_the_wait_in_the_file(tmp_path: Path) -> None:
    """A replay would not know the flag, so the two are refused together."""
    arguments = ["--record", str(tmp_path / "r"), "--pod-max-in-unschedulable-pods-duration=5m"]
    done = CliRunner().invoke(main, ["run", *arguments])
    assert (2, True) == (done.exit_code, "leave one out" in done.output)


def test_master_replaces_the_address(tmp_path: Path) -> None:
    """The kubeconfig's credentials stay; without one there are none."""
    file = tmp_path / "kubeconfig"
    cluster, user = {"server": "https://a:1"}, {"token": "t"}
    content = {"current-context": "c", "clusters": [{"name": "c", "cluster": cluster}]}
    content["users"], content["contexts"] = (
        [{"name": "c", "user": user}],
        [{"name": "c", "context": {"cluster": "c", "user": "c"}}],
    )
    file.write_text(json.dumps(content))
    assert "https://b:2" == find_credentials(str(file), server="https://b:2").server
    bare: Credentials = find_credentials("", environment={}, server="http://b:2")
    assert ("http://b:2", "--master") == (bare.server, bare.origin)


def test_an_unknown_option_is_still_one() -> None:
    """click's own error, with what is near."""
    with pytest.raises(click.NoSuchOption):
        parse("--nonsense")

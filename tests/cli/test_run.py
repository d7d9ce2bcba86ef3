"""`trimtab run` where it cannot start: one sentence with a remedy, exit 1 or 2, and no traceback."""

import asyncio
import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path

import pytest

from tests.kube.fault_server import serving
from tests.sources.fake_prometheus import respond_with
from tools.controlplane.process import free_port
from trimtab.cli.run import LogLevelFlag, unique_identity
from trimtab.config.kube_scheduler import default_configuration
from trimtab.config.trimtab.settings import LoggingSettings, TrimtabConfiguration


def run(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOME": str(home), "KUBECONFIG": ""}
    command = [sys.executable, "-m", "trimtab", "run", "--serve", "127.0.0.1:0", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)


def config(folder: Path, **fields: object) -> str:
    path = folder / "config.yaml"
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    path.write_text(json.dumps({**head, **fields}, indent=1))
    return str(path)


def kubeconfig_of(server: str) -> str:
    return json.dumps(
        {
            "current-context": "x",
            "clusters": [{"name": "x", "cluster": {"server": server}}],
            "users": [{"name": "x", "user": {"token": "secret-token"}}],
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
        }
    )


def test_no_kubeconfig(tmp_path: Path) -> None:
    """The error says where it searched and what to set."""
    done = run(home=tmp_path)
    assert 2 == done.returncode
    assert "no kubeconfig found: tried KUBECONFIG (unset) and" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_api_server_that_is_not_there(tmp_path: Path) -> None:
    """It is waited for, and said once with its address; meanwhile the process is alive, not ready, and can be stopped."""
    server, port = f"https://127.0.0.1:{free_port()}", free_port()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig_of(server))
    command = [sys.executable, "-m", "trimtab", "run", "--serve", f"127.0.0.1:{port}", "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    lines = [process.stderr.readline()]
    while "waiting for the API server" not in lines[-1] and lines[-1]:
        lines.append(process.stderr.readline())
    pages = [urlopen_status(f"http://127.0.0.1:{port}/{page}") for page in ("livez", "readyz")]
    time.sleep(3.0)  # several attempts
    process.terminate()
    with process.stderr:
        said = "".join(lines) + process.stderr.read()
    assert ([200, 500], 0) == (pages, process.wait(10))
    assert f"the API server {server}" in said
    assert (1, 1) == (said.count("waiting for the API server"), said.count("cannot be reached"))
    assert "Traceback" not in said
    assert "secret-token" not in said


def urlopen_status(url: str) -> int:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"paralelism": 3}, "paralelism"),
        ({"parallelism": "many"}, "parallelism"),
        ({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]}, "a"),
        ({"profiles": [{"plugins": {"filter": {"enabled": [{"name": "NodeAfinity"}]}}}]}, "NodeAffinity"),
        ({"extenders": [{"urlPrefix": "http://127.0.0.1"}]}, "extenders"),
    ],
)
def test_a_bad_configuration(tmp_path: Path, fields: dict[str, object], words: str) -> None:
    """Exit 2 with file, line and column, before anything is contacted."""
    file = config(tmp_path, **fields)
    done = run("--config", file, home=tmp_path)
    assert 2 == done.returncode
    assert words in done.stderr
    assert f"{file}:" in done.stderr
    assert done.stderr.split(f"{file}:")[1].split(":")[0].isdigit()
    assert "Traceback" not in done.stderr


def test_pages_are_for_loopback_only(tmp_path: Path) -> None:
    """An address that is not loopback is rejected: the endpoints are unauthenticated."""
    done = run("--serve", "0.0.0.0:1", home=tmp_path)
    assert 2 == done.returncode
    assert "127.0.0.1" in done.stderr


@pytest.mark.parametrize("name", ["", "first"])
def test_no_two_replicas_are_called_the_same(name: str) -> None:
    """With the same host, process id and even --identity there are still two holders."""
    one, other = unique_identity(name), unique_identity(name)
    assert one != other
    assert one.startswith(f"{name or socket.gethostname()}_")


async def test_a_query_that_prometheus_cannot_read(tmp_path: Path) -> None:
    """It is rejected at the start, with its position, its value and Prometheus' message."""
    says = {"status": "error", "errorType": "bad_data", "error": "1:1: parse error: expected type range vector"}
    async with serving(respond_with(json.dumps(says).encode(), 400)) as server:
        path = tmp_path / "config.yaml"
        path.write_text(
            "apiVersion: trimtab.dev/v1alpha1\nkind: TrimtabConfiguration\nsources:\n- name: prom\n  prometheus:\n"
            f"    url: http://127.0.0.1:{server.port}\n    queries:\n    - {{name: disk, query: rate(x)}}\n"
        )
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(kubeconfig_of("https://127.0.0.1:1"))
        done = await asyncio.to_thread(run, "--config", str(path), "--kubeconfig", str(kubeconfig), home=tmp_path)
    assert 2 == done.returncode
    expected = (
        f"{path}:8:27: query 'disk' of source 'prom': 'rate(x)': Prometheus rejected the query (400): 1:1: parse error"
    )
    assert done.stderr.splitlines()[-1].startswith(expected) and done.stderr.rstrip().endswith("correct the query")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--controllers", "scheduler,descheduler"),
            "unknown controller 'descheduler': choose from scheduler, labeller",
        ),
        (("--controllers", "scheduler,labeller"), "--controllers labeller needs --config FILE with sources and labels"),
    ],
)
def test_controllers_that_cannot_run(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """Exit 2 with a sentence, before anything is contacted."""
    done = run(*arguments, home=tmp_path)
    assert (2, True) == (done.returncode, message in done.stderr), done.stderr


def test_a_labeller_in_the_scheduler_needs_rules(tmp_path: Path) -> None:
    """A file without label rules is rejected."""
    file = config(tmp_path, profiles=[{"schedulerName": "a"}])
    done = run("--controllers", "scheduler,labeller", "--config", file, home=tmp_path)
    assert (2, True) == (done.returncode, "labels: is missing" in done.stderr), done.stderr


def test_a_recording_that_cannot_be_written(tmp_path: Path) -> None:
    """Exit code 2, with the path and the reason, before anything is sent."""
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(kubeconfig_of(f"https://127.0.0.1:{free_port()}"))
    done = run("--kubeconfig", str(kubeconfig), "--record", str(tmp_path / "missing" / "r"), home=tmp_path)
    assert 2 == done.returncode
    assert f"trimtab: cannot record to {tmp_path / 'missing' / 'r'}: No such file or directory." in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--record-max-size", "much"), "'much' is not a quantity"),
        (("--record-max-size", "10Ki"), "10Ki is less than 1Mi"),
        (("--check-invariants", "0"), "0.0 is not in the range x>0"),
        (("--check-invariants=often",), "'often' is not a number"),
    ],
)
def test_values_of_flags_that_make_no_sense(tmp_path: Path, arguments: tuple[str, ...], message: str) -> None:
    """Exit code 2."""
    done = run(*arguments, home=tmp_path)
    assert (2, True) == (done.returncode, message in done.stderr), done.stderr


def test_a_level_in_the_file_that_the_flag_overrides(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged when the file changes it, not at every read; without a flag the file decides."""
    files = [
        replace(default_configuration(), trimtab=TrimtabConfiguration(logging=LoggingSettings(level=level)))
        for level in ("info", "info", "warning", "warning")
    ]
    flag, none = LogLevelFlag("debug"), LogLevelFlag("")
    assert ["debug"] * 4 == [flag.apply(each).trimtab.logging.level for each in files]
    assert ["info", "info", "warning", "warning"] == [none.apply(each).trimtab.logging.level for each in files]
    assert ["logging.level has no effect, the flag wins: file=warning flag=debug"] == caplog.messages

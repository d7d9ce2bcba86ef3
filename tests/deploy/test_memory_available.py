"""The script that measures memory.available on a node, on fake hosts with cgroup v1 and v2."""

from __future__ import annotations

import os
import subprocess
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "deploy" / "memory-available" / "memory-available.sh"
MIB = 1 << 20
MEMINFO = "MemTotal:       16777216 kB\nMemFree:         4194304 kB\nMemAvailable:   12582912 kB\n"
V1 = {
    "memory/memory.usage_in_bytes": str(10_000 * MIB),
    "memory/memory.stat": f"cache 5\ntotal_inactive_file {2_000 * MIB}\n",
}
V2 = {"cgroup.controllers": "cpu memory", "memory.stat": f"anon 1\ninactive_file {2_000 * MIB}\nactive_file 9\n"}


def host(folder: Path, cgroup: Mapping[str, str], meminfo: str = MEMINFO) -> Path:
    """A root folder with the files that the script reads."""
    for name, content in {
        "proc/meminfo": meminfo,
        **{f"sys/fs/cgroup/{key}": each for key, each in cgroup.items()},
    }.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content + "\n")
    return folder


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HOST_ROOT": str(root), "NODE_NAME": "node-7"}
    return subprocess.run(
        ["sh", str(SCRIPT), *arguments], capture_output=True, text=True, env=environment, timeout=30, check=False
    )


@pytest.mark.parametrize(
    ("cgroup", "mib"),
    [
        (V1, 16384 - 8000),
        ({**V2, "memory.current": str(10_000 * MIB)}, 16384 - 8000),
        (V2, 4096 + 2000),
        ({**V1, "memory/memory.stat": f"total_inactive_file {12_000 * MIB}\n"}, 16384),
    ],
    ids=["v1", "v2", "v2 at the root of a host", "more idle than used"],
)
def test_the_value_equals_the_kubelets(tmp_path: Path, cgroup: Mapping[str, str], mib: int) -> None:
    """Capacity less the working set, which is never negative; inactive file pages do not count as used."""
    done = run(host(tmp_path, cgroup))
    assert ("", 0) == (done.stderr, done.returncode)
    assert f'k8_node_cgroups_mem_available{{node="node-7"}} {mib}' in done.stdout.splitlines()


def test_the_time_of_measuring_is_a_metric_of_its_own(tmp_path: Path) -> None:
    """In seconds, between the start and the end of the script."""
    started = int(time.time())
    name, at = run(host(tmp_path, V1)).stdout.splitlines()[-1].split()
    assert 'k8_node_cgroups_mem_available_timestamp_seconds{node="node-7"}' == name
    assert started <= int(at) <= time.time()


@pytest.mark.parametrize("name", ["MemTotal", "MemFree"])
def test_a_missing_value_is_not_zero(tmp_path: Path, name: str) -> None:
    """Without free or total memory there is no value but an error message."""
    done = run(host(tmp_path, V2, MEMINFO.replace(name, "Other")))
    assert (1, "") == (done.returncode, done.stdout)
    assert f"no {name} in " in done.stderr


def test_the_textfile_is_written_atomically(tmp_path: Path) -> None:
    """It is moved into place, so that it is never read half-written."""
    folder = tmp_path / "textfile"
    folder.mkdir()
    assert 0 == run(host(tmp_path, V1), "--textfile", str(folder)).returncode
    assert ["memory_available.prom"] == [each.name for each in folder.iterdir()]
    assert "8384" in (folder / "memory_available.prom").read_text()


def test_it_is_pushed_with_the_old_labels(tmp_path: Path) -> None:
    """Job and instance are those that rules for the old script select."""
    heard: list[tuple[str, str]] = []

    class Gateway(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append((self.path, self.rfile.read(int(self.headers["Content-Length"])).decode()))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...  # noqa: A002  the name is the parent's

    with HTTPServer(("127.0.0.1", 0), Gateway) as server:
        serving = threading.Thread(target=server.handle_request)
        serving.start()
        done = run(host(tmp_path, V1), "--push", f"http://127.0.0.1:{server.server_port}")
        serving.join(10)
    assert ("", 0) == (done.stderr, done.returncode)
    ((path, body),) = heard
    assert "/metrics/job/CollectK8sCgroupsMem/instance/node-7" == path
    assert 'k8_node_cgroups_mem_available{node="node-7"} 8384' in body.splitlines()
    assert body.endswith("\n")


@pytest.mark.parametrize(
    ("cgroup", "meminfo", "words"),
    [
        ({}, MEMINFO, "has neither cgroup v1 nor v2: is HOST_ROOT right?"),
        ({"cgroup.controllers": "cpu"}, MEMINFO, "is the memory controller enabled?"),
        ({**V1, "memory/memory.stat": "cache 5"}, MEMINFO, "no total_inactive_file in"),
        (V1, "Nothing: 1 kB", "no MemTotal in"),
    ],
)
def test_unreadable_files_are_reported_and_nothing_is_printed(
    tmp_path: Path, cgroup: Mapping[str, str], meminfo: str, words: str
) -> None:
    """No value is better than a wrong one."""
    done = run(host(tmp_path, cgroup, meminfo))
    assert (1, "") == (done.returncode, done.stdout)
    assert words in done.stderr

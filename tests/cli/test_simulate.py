"""`trimtab simulate`: the same bytes again, resuming, gates, explanations, and what is said about bad input."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from msgspec.structs import replace

from tests.apps.simulate.small_scenario import write_small
from tests.sim.snapshot_clusters import replica, worker, write_cluster
from trimtab.apps.simulate.jobs import Job
from trimtab.apps.simulate.study import Study
from trimtab.cli import main

OUTPUTS = ("report.html", "results.json", "results.csv")


def simulate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["simulate", *map(str, arguments)])


@pytest.fixture
def small(tmp_path: Path) -> Path:
    return write_small(tmp_path)


def test_the_same_bytes_again(small: Path, tmp_path: Path) -> None:
    """Twice, and with one or two processes; timings are in none of the files."""
    contents = []
    for number, jobs in enumerate((1, 2, 2)):
        folder = tmp_path / str(number)
        assert 0 == simulate(small, "--seeds", 2, "--jobs", jobs, "--out", folder).exit_code
        contents.append([(folder / name).read_bytes() for name in OUTPUTS])
    assert contents[0] == contents[1] == contents[2]


def test_files_are_written_where_asked(small: Path, tmp_path: Path) -> None:
    """Without --out, each by its own flag."""
    html, as_json, as_csv = (tmp_path / name for name in ("a.html", "b.json", "c.csv"))
    result = simulate(small, "--seed", 7, "--html", html, "--json-file", as_json, "--csv", as_csv)
    assert 0 == result.exit_code
    assert [7] == json.loads(as_json.read_text())["seeds"]
    assert f"trimtab simulate {small} --policy stock --policy PeakRisk --seed 7" in html.read_text()
    assert as_csv.read_text().startswith("scenario,policy,seed,decisions,hot80")
    assert f"written: {html}" in result.stdout


def test_a_file_goes_into_a_folder_that_is_there(small: Path, tmp_path: Path) -> None:
    """A misspelt folder is an error before the first run; only that of --out is created."""
    result = simulate(small, "--seed", 1, "--html", tmp_path / "nope" / "a.html", "--out", tmp_path / "new" / "out")
    assert 2 == result.exit_code
    assert f"a.html cannot be written: there is no folder {tmp_path / 'nope'}" in result.stderr
    assert not (tmp_path / "nope").exists() and (tmp_path / "new" / "out").is_dir()


@pytest.mark.parametrize("name", ["cluster.json", "cluster.json.gz"])
def test_a_snapshot_is_not_a_scenario(name: str, tmp_path: Path) -> None:
    """But it can be simulated, and the message says how."""
    file = write_cluster(tmp_path, [worker("n-1")])
    content = file.read_bytes()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    result = simulate(tmp_path / name)
    assert 2 == result.exit_code
    assert (
        f"{name}: is not a scenario. To simulate a snapshot, write one with `snapshot: {{file: {name}}}`"
        in result.stderr
    )


def test_pods_without_a_node_are_in_the_table(small: Path) -> None:
    """A policy that leaves pods pending must not look better for it."""
    small.write_text(small.read_text().replace("{cpu: 250m, memory: 128Mi}", "{cpu: 64, memory: 128Mi}"))
    assert "unplaced" in simulate(small, "--seed", 1).stdout.partition("0 for all policies")[0]


def test_what_a_snapshot_lacks_is_noted(tmp_path: Path) -> None:
    """Its own notes, missing kinds and unmeasured pods, and which policies schedule nothing without these kinds."""
    write_cluster(tmp_path, [worker("n-1")], [replica("web-1", "n-1")], missing=("namespaces",), notes=("no source",))
    scenario = tmp_path / "mine.yaml"
    scenario.write_text("apiVersion: trimtab.dev/v1alpha1\nkind: Scenario\nsnapshot: {file: cluster.json}\n")
    result = simulate(scenario, "--policy", "stock", "--seed", 1)
    assert [
        "note: no source",
        "note: without namespaces, which could not be listed: pods that need them stay pending",
        "note: 1 running pod was not measured and counts with its requests",
        "note: stock schedules nothing without namespaces: one of its plugins reads them for every pod",
    ] == [line for line in result.stderr.splitlines() if line.startswith("note: ")]


def test_the_table(small: Path) -> None:
    """Policies as rows with ratios to the first, what is 0 for all, and the speed."""
    result = simulate(small, "--seeds", 2)
    assert "small, 2 seeds" in result.stdout
    assert "× relative to stock" in result.stdout
    assert "0 for all policies: " in result.stdout
    assert " s per run here." in result.stdout
    assert "[4/4]" in result.stderr


def test_measures_are_chosen(small: Path) -> None:
    """Some, or all of them; a misspelt one is an error before the first run."""
    chosen = simulate(small, "--seed", 1, "--measures", "spread,hot90")
    assert "spread" in chosen.stdout
    assert "top_p99" not in chosen.stdout
    everything = simulate(small, "--seed", 1, "--measures", "all", "--policy", "stock")
    assert "request_spread" in everything.stdout
    wrong = simulate(small, "--measures", "spred")
    assert 2 == wrong.exit_code
    assert "did you mean spread?" in wrong.stderr


def run_in_process(small: Path, folder: Path) -> subprocess.Popen[str]:
    command = [
        sys.executable,
        "-m",
        "trimtab",
        "simulate",
        str(small),
        "--seeds",
        "3",
        "--jobs",
        "1",
        "--out",
        str(folder),
        "--fail-if",
        "hot80 > 90%",
    ]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ)


def wait_for_runs(folder: Path, count: int) -> None:
    deadline = time.monotonic() + 60
    while len([*folder.glob("runs/*.json")]) < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_killed_run_is_resumed(small: Path, tmp_path: Path) -> None:
    """By kill -9, half-way: every file is whole, finished runs are not run again, and the results are the same."""
    folder, other = tmp_path / "killed", tmp_path / "whole"
    with run_in_process(small, folder) as process:
        wait_for_runs(folder, 2)
        process.kill()
    kept = {path: (json.loads(path.read_text())["key"], path.stat().st_mtime_ns) for path in folder.glob("runs/*.json")}
    assert 2 <= len(kept) < 6
    assert [] == [*folder.glob("*.*")]
    resumed = simulate(small, "--seeds", 3, "--out", folder)
    assert 0 == resumed.exit_code
    assert f"{len(kept)} of 6 runs are finished already" in resumed.stderr
    assert kept == {path: (json.loads(path.read_text())["key"], path.stat().st_mtime_ns) for path in kept}
    simulate(small, "--seeds", 3, "--out", other)
    assert [(other / name).read_bytes() for name in OUTPUTS] == [(folder / name).read_bytes() for name in OUTPUTS]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_says_how_to_resume(small: Path, tmp_path: Path, number: signal.Signals) -> None:
    """Exit code 130, what is finished, and the command; no report is left."""
    folder = tmp_path / "out"
    with run_in_process(small, folder) as process:
        wait_for_runs(folder, 1)
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert 130 == process.returncode
    assert "of 6 runs are finished and kept in" in said
    command = f"trimtab simulate {small} --policy stock --policy PeakRisk --seeds 3 --jobs 1 --out {folder}"
    assert f"to resume: {command} --fail-if 'hot80 > 90%'" in said
    assert "Traceback" not in said
    assert [] == [*folder.glob("*.*")]


def test_a_job_that_fails_does_not_stop_the_others(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 1; its traceback is in a file, and the others are in the report."""
    jobs_of = Study.jobs

    def with_a_broken_one(self: Study, *, compaction: bool = False) -> tuple[Job, ...]:
        first, *others = jobs_of(self, compaction=compaction)
        broken = replace(first.scenario, nodes=("broken",))
        return (replace(first, scenario=broken), *others)

    monkeypatch.setattr(Study, "jobs", with_a_broken_one)
    result = simulate(small, "--seeds", 2, "--out", tmp_path / "out")
    assert 1 == result.exit_code
    (traceback,) = (tmp_path / "out" / "failures").iterdir()
    assert "AttributeError" in traceback.read_text()
    assert f"failed: stock, seed 1: {traceback}" in result.stderr
    assert 3 == len(json.loads((tmp_path / "out" / "results.json").read_text())["runs"])


@pytest.mark.parametrize(
    ("gates", "code", "said"),
    [
        (["hot80 > 90%"], 0, ""),
        (["stock: hot80 > 0"], 3, "violated: stock: hot80 is 0."),
        (["hot80 > 90%", "ratio(hot80) >= 0"], 3, "violated: PeakRisk: ratio(hot80) is"),
        (["hto80 > 1"], 2, "there is no measure 'hto80' (did you mean hot80?)"),
        (["PeekRisk: hot80 > 1"], 2, "there is no policy 'PeekRisk' (did you mean PeakRisk?)"),
    ],
)
def test_gates(small: Path, gates: list[str], code: int, said: str) -> None:
    """Exit code 3 where one is violated, 2 where one cannot be understood."""
    result = simulate(small, "--seed", 1, *(part for gate in gates for part in ("--fail-if", gate)))
    assert code == result.exit_code
    assert said in result.stderr


def test_explain(small: Path) -> None:
    """The same text as `trimtab explain`, with times of the scenario."""
    pod = simulate(small, "--policy", "PeakRisk", "--until", "08:15", "--explain", "pod/late")
    assert 0 == pod.exit_code
    assert "pod default/late is bound to" in pod.stdout
    assert "decided day 1 08:10:00 (attempt 1)" in pod.stdout
    node = simulate(small, "--seed", 3, "--until", "10m", "--explain", "node/a")
    assert node.stdout.startswith("node a: schedulable")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--until", "5m", "--explain", "pod/late"], "it arrives at 08:10"),
        (["--until", "5m", "--explain", "pods/late"], "is neither pod/NAME"),
        (["--until", "soon", "--explain", "pod/late"], "'soon' is no time"),
        (["--until", "5m"], "--until and --explain belong together"),
        (["--until", "5m", "--explain", "pod/x", "--policy", "stock", "--policy", "PeakRisk"], "for one policy"),
        (["--until", "5m", "--explain", "pod/x", "--html", "a.html", "--compaction"], "leave out --html, --compaction"),
        (["--until", "99:00", "--explain", "pod/late"], "99:00 is outside of the scenario"),
        (["--until", "9h", "--explain", "pod/late"], "9h (17:00) is outside of the scenario"),
        (["--seed", "1", "--seeds", "2"], "--seed is one seed, --seeds how many"),
        (["--policy", "PeekRisk"], "there is no such policy (did you mean PeakRisk?)"),
        (["--policy", "stock", "--policy", "stock"], "is given twice"),
        (["--seeds", "0"], "0 is not in the range"),
        (["--html", "/proc/none/report.html"], "/proc/none/report.html cannot be written"),
        (["--out", "/dev/null"], "/dev/null/report.html cannot be written: /dev/null is not a folder."),
    ],
)
def test_bad_input(small: Path, arguments: list[str], said: str) -> None:
    """Exit code 2 and a sentence, before the first run."""
    result = simulate(small, *arguments)
    assert 2 == result.exit_code
    assert said in result.stderr
    assert "[1/" not in result.stderr
    assert "Traceback" not in result.stderr


def test_a_pipe_is_not_replaced(small: Path, tmp_path: Path) -> None:
    """Nor a device, such as /dev/stdout: found before the first run."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    result = simulate(small, "--json-file", pipe)
    assert (2, True) == (result.exit_code, pipe.is_fifo())
    assert f"{pipe} cannot be written: it is not a regular file." in result.stderr


def test_all_problems_of_scenario_and_policies_at_once(tmp_path: Path) -> None:
    """With their places."""
    invalid = tmp_path / "invalid.yaml"
    invalid.write_text("apiVersion: trimtab.dev/v1alpha1\nkind: Scenario\nduraton: 5m\n")
    result = simulate(invalid, "--policy", "PeekRisk")
    assert 2 == result.exit_code
    assert "invalid.yaml:3:1" in result.stderr
    assert "did you mean PeakRisk?" in result.stderr
    unknown = simulate("hot-nodes")
    assert "did you mean hot-node?" in unknown.stderr


def test_names_are_listed() -> None:
    """Scenarios and policies, with a line on each."""
    result = simulate("--list")
    assert 0 == result.exit_code
    assert "  hot-node: " in result.stdout
    assert "  PeakRisk: " in result.stdout


def test_ray_that_is_not_installed(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What to install."""
    monkeypatch.setitem(sys.modules, "ray", None)
    result = simulate(small, "--ray", "local")
    assert 2 == result.exit_code
    assert "pip install 'trimtab[ray]'" in result.stderr


def test_compaction(small: Path, tmp_path: Path) -> None:
    """A table of its own, and a section of the results."""
    result = simulate(small, "--seed", 1, "--policy", "stock", "--compaction", "--json-file", tmp_path / "r.json")
    assert 0 == result.exit_code
    assert "nodes needed for the pods of the fullest moment" in result.stdout
    found = json.loads((tmp_path / "r.json").read_text())["compaction"]["stock"]
    assert 11 == len(found["needed"])
    assert 1 <= found["percentile90"] <= 3

"""Builds the sig-scheduling specs of Kubernetes' end-to-end suite, runs them on a rig, and reads their report."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tools.controlplane import build
from tools.controlplane.process import Process
from tools.controlplane.rig import Rig

SUITE = build.Module("e2e", Path(__file__).resolve().parent, (build.Program("e2e", "."),))
# An alpha API that the API server does not serve unless its feature gate is on.
SKIPPED = "GenericWorkload"
NODES = 5
SUITE_MINUTES = 60
POLL_SECONDS = 0.5
LABELS = re.compile(r" ?\[(It|sig-scheduling[^]]*|Serial|Conformance|Beta|Feature[^]]*)\]")


class SuiteError(Exception):
    """The suite ended without a report."""


@dataclass(frozen=True, slots=True)
class Result:
    """One spec's outcome in Ginkgo's words (passed, failed, timedout, skipped, …), and its first line of failure."""

    spec: str
    outcome: str
    seconds: float
    message: str = ""

    @property
    def passed(self) -> bool:
        """Whether the spec ran and held."""
        return self.outcome == "passed"


def build_suite() -> Path:
    """The suite's program, built if necessary."""
    wanted = build.module_folder(SUITE)
    if not wanted.is_dir():
        with build.build_lock():
            build.create_atomically(wanted, _compile)
    return wanted / SUITE.programs[0].name


def _compile(target: Path) -> None:
    build.log_progress("building the end-to-end specs, once: some minutes")
    go, program = build.go_command(), SUITE.programs[0]
    build.fetch_modules(go, SUITE)
    variables = build.linker_variables(build.pinned_version())
    build.compile_program(go, SUITE.source, target / program.name, program, variables)


def run_specs(rig: Rig, name: str, focus: str = "", minutes: float = SUITE_MINUTES) -> list[Result]:
    """Run the specs that match the pattern, or all; the log and the report stay in the rig's workspace by this name."""
    report = rig.workspace / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [str(build_suite()), *_flags(rig, report, focus, minutes)]
    process = Process(command, rig.workspace / f"{name}.log", {"HOME": str(rig.workspace)})
    try:
        while process.running():
            time.sleep(POLL_SECONDS)
    finally:
        process.kill()
    if not report.exists():
        raise SuiteError(f"the end-to-end specs ended without a report:\n{process.log_tail()}")
    return read_report(report.read_text())


def _flags(rig: Rig, report: Path, focus: str, minutes: float) -> list[str]:
    flags = {
        "kubeconfig": rig.admin_kubeconfig,
        "provider": "skeleton",
        "num-nodes": NODES,
        "ginkgo.skip": SKIPPED,
        "ginkgo.timeout": f"{minutes * 60:.0f}s",
        "ginkgo.junit-report": report,
        "ginkgo.no-color": "true",
        "ginkgo.v": "true",
        **({"ginkgo.focus": focus} if focus else {}),
    }
    return [f"--{flag}={value}" for flag, value in flags.items()]


def read_report(text: str) -> list[Result]:
    """The specs of a JUnit report that were selected, by name."""
    cases = ElementTree.fromstring(text).iter("testcase")  # noqa: S314 (written by our own test run)
    specs = [_result(case) for case in cases if case.get("name", "").startswith("[It]")]
    return sorted((each for each in specs if each.outcome != "skipped" or each.message), key=lambda each: each.spec)


def _result(case: ElementTree.Element) -> Result:
    """Specs that were not selected are skipped without a message."""
    reason = next((each for each in case if each.tag in ("failure", "error", "skipped")), None)
    message = "" if reason is None else (reason.get("message") or "").removeprefix("skipped - ").removeprefix("skipped")
    return Result(
        spec=LABELS.sub("", case.get("name", "")).strip(),
        outcome=case.get("status", "unknown"),
        seconds=float(case.get("time", "0")),
        message=message.strip().partition("\n")[0],
    )

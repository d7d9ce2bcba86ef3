"""The process of a shadow: what it reads and writes, how it ends, and from what it goes on."""

from __future__ import annotations

import json
import logging
import os
import signal
from asyncio import get_running_loop
from pathlib import Path
from typing import Any

import pytest

from tests.apps.snapshot.listing_server import listing_server
from tests.config.config_files import HEAD
from tests.kube.fake_transport import FakeTransport
from tests.wire.json_objects import pod_json
from tests.wire.planted_secrets import cluster
from trimtab.apps.shadow import OutputError, ShadowOptions, ShadowProcess, policy_of
from trimtab.config.kube_scheduler import default_configuration, parse
from trimtab.core.model.events import ConfigText
from trimtab.kube.credentials import Credentials
from trimtab.kube.credentials.kubeconfig import ClusterConfig, UserConfig
from trimtab.kube.preflight import PreflightError
from trimtab.sim.shadow.report import FollowedPolicy, Report

CREDENTIALS = Credentials(ClusterConfig(server="http://127.0.0.2:1"), UserConfig(), "test")
POLICY = FollowedPolicy("policy.yaml", ("trimtab",), "digest")


def process(transport: FakeTransport | None = None, **options: Any) -> ShadowProcess:
    wanted = ShadowOptions(options.pop("policy", POLICY), **options)
    return ShadowProcess(default_configuration(), CREDENTIALS, wanted, transport or listing_server())


async def test_it_reads_decides_and_ends(tmp_path: Path) -> None:
    """Pods that wait at the start are decided; only GET requests and watches are sent; the report is written and printed."""
    transport, reports, out = listing_server(), list[Report](), tmp_path / "out.json"
    shadow = process(transport, duration=0.3, out=out, on_report=reports.append)
    assert 0 == await shadow.run()
    assert {"GET"} == {each.method for _, each in (*transport.sent, *transport.watched)}
    assert 13 == len(shadow.shadow.waiting) and 0 < shadow.shadow.unbound
    (report,) = reports
    assert report.finished and json.loads(out.read_bytes())["summary"] == report.summary
    assert report.watched_seconds >= 0.3


async def test_signals() -> None:
    """SIGUSR1 reports and goes on; SIGTERM ends it, with 0 and a last report."""
    reports: list[Report] = []
    shadow = process(on_report=reports.append)
    for delay, number in ((0.2, signal.SIGUSR1), (0.4, signal.SIGTERM)):
        get_running_loop().call_later(delay, os.kill, os.getpid(), number)
    assert 0 == await shadow.run()
    assert [False, True] == [each.finished for each in reports]


async def test_nodes_that_may_not_be_listed() -> None:
    """The start fails, with what to do."""
    with pytest.raises(PreflightError, match="forbids listing /api/v1/nodes"):
        await process(listing_server(forbidden=("nodes",)), duration=0.1).run()


async def test_other_kinds_that_may_not_be_listed(caplog: pytest.LogCaptureFixture) -> None:
    """The log names them; pods that need none of them are decided."""
    with caplog.at_level(logging.WARNING):
        objects = {"nodes": cluster()["nodes"], "pods": [pod_json()]}
        shadow = process(listing_server(objects, forbidden=("persistentvolumeclaims",)), duration=0.3)
        await shadow.run()
    assert "forbidden, pods that need it are not decided: kind=persistentvolumeclaims" in caplog.text
    assert 1 == shadow.shadow.unbound


async def test_going_on(tmp_path: Path) -> None:
    """From the file of --out: the time that was watched counts for --for."""
    out = tmp_path / "out.json"
    await process(out=out, duration=0.2).run()
    first = json.loads(out.read_bytes())
    again = process(out=out, duration=0.3)
    assert first["watchedSeconds"] == pytest.approx(again.watched) and first["started"] == again.started
    await again.run()
    assert 0.3 <= json.loads(out.read_bytes())["watchedSeconds"] < first["watchedSeconds"] + 0.5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            b"nonsense",
            "out.json: JSON is malformed: invalid character (byte 4): choose another file, or remove this one",
        ),
        (b'{"kind": "PodList"}', "out.json: Object missing required field `policy`: choose another file"),
    ],
)
async def test_another_file(tmp_path: Path, content: bytes, message: str) -> None:
    """It is not overwritten."""
    out = tmp_path / "out.json"
    out.write_bytes(content)
    with pytest.raises(OutputError) as raised:
        process(out=out)
    assert message in str(raised.value) and content == out.read_bytes()


async def test_a_disk_that_is_full(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the comparison goes on."""
    folder = tmp_path / "gone"
    folder.mkdir()
    shadow = process(out=folder / "out.json")
    folder.rmdir()
    shadow.save(shadow.report())
    assert "report not written" in caplog.text


async def test_a_task_that_fails_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With 1, after the report was written as unfinished."""
    out = tmp_path / "out.json"
    shadow = process(out=out)

    async def fail() -> None:
        raise RuntimeError("internal error")

    monkeypatch.setattr(shadow, "_measure", fail)
    assert 1 == await shadow.run()
    assert not json.loads(out.read_bytes())["finished"]


def test_the_digest_is_of_all_files() -> None:
    """A change of an included file is another policy."""
    configuration = parse(HEAD, "policy.yaml")
    one = policy_of(configuration, ConfigText("policy.yaml", b"a", (("b.yaml", b"b"),)))
    other = policy_of(configuration, ConfigText("policy.yaml", b"a", (("b.yaml", b"c"),)))
    assert ("policy.yaml", one.profiles) == (one.file, other.profiles) and one.digest != other.digest

"""The dependency audit: vulnerable pins, waivers with their dates, and a database that does not answer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from datetime import date
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from tools import audit
from tools.audit import Finding, Pin, Waiver

LOCK = "aiohttp==3.8.0 \\\n    --hash=sha256:00\nnumpy==2.4.6 ; python_full_version < '3.12' \\\n    --hash=sha256:00\n"
KNOWN = {("aiohttp", "3.8.0"): ["GHSA-5m98-qgg9-wh84"]}
WAIVER = (
    '[[waiver]]\nid = "GHSA-5m98-qgg9-wh84"\npackage = "aiohttp"\nuntil = {until}\nreason = "no server of it is open"\n'
)


class Database:
    """A database on loopback that knows these vulnerabilities, or answers with a given body."""

    def __init__(self) -> None:
        self.body: bytes | None = None
        self.server = HTTPServer(("127.0.0.1", 0), self._answering())
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/querybatch"

    def _answering(self) -> type[BaseHTTPRequestHandler]:
        database = self

        class Answering(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                body = database.body if database.body is not None else json.dumps(answer(asked)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Answering


def answer(asked: Mapping[str, Any]) -> Mapping[str, Any]:
    """As OSV answers: a result for each query, with the ids of its vulnerabilities if there are any."""
    names = [(each["package"]["name"], each["version"]) for each in asked["queries"]]
    return {"results": [{"vulns": [{"id": each} for each in KNOWN[name]]} if name in KNOWN else {} for name in names]}


@pytest.fixture
def database() -> Iterator[Database]:
    made = Database()
    thread = threading.Thread(target=made.server.serve_forever)
    thread.start()
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    (path := tmp_path / "some.lock").write_text(LOCK)
    return path


def run(database: Database, lock: Path, waivers: str = "") -> int:
    (file := lock.parent / "waivers.toml").write_text(waivers)
    return audit.main(["--service", database.url, "--waivers", str(file), str(lock)])


def test_a_vulnerable_pin_fails(database: Database, lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named with its version, the advisory and what to do."""
    assert 1 == run(database, lock)
    assert "aiohttp 3.8.0: GHSA-5m98-qgg9-wh84; upgrade it" in capsys.readouterr().out


def test_a_waiver_holds_until_its_day(database: Database, lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And fails the audit afterwards."""
    assert 0 == run(database, lock, WAIVER.format(until="2999-12-31"))
    assert 1 == run(database, lock, WAIVER.format(until="2020-12-31"))
    assert "the waiver of GHSA-5m98-qgg9-wh84 expired on 2020-12-31" in capsys.readouterr().out


def test_a_waiver_for_nothing_fails() -> None:
    """So that the file lists what is really accepted."""
    waiver = Waiver("GHSA-1", "numpy", date(2999, 1, 1), "why")
    assert ["numpy: GHSA-1 is waived, but no locked version has it; remove the waiver"] == list(
        audit.problems([], [waiver], date(2026, 1, 1))
    )
    assert [] == list(audit.problems([Finding(Pin("numpy", "1"), "GHSA-1")], [waiver], date(2026, 1, 1)))


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b'{"results": []}', b'{"results": [1, 2]}', b'{"results": [{}, {"next_page_token": "x"}]}'],
)
def test_an_answer_that_says_nothing_is_no_pass(
    database: Database, lock: Path, body: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, and how many packages were not audited."""
    database.body = body
    assert 2 == run(database, lock)
    assert "NOT AUDITED: 2 packages" in capsys.readouterr().err


def test_a_database_that_cannot_be_reached_is_no_pass(lock: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nor one that is no web address."""
    for service in ("http://127.0.0.1:9/", "file:///etc/passwd"):
        assert 2 == audit.main(["--service", service, str(lock)])
        assert "NOT AUDITED" in capsys.readouterr().err


@pytest.mark.parametrize("until", ['"2999-12-31"', "2999-12-31T00:00:00Z", "1"])
def test_a_waiver_needs_a_date(database: Database, lock: Path, until: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A quoted one would never expire."""
    assert 2 == run(database, lock, WAIVER.format(until=until))
    assert "a date without quotes" in capsys.readouterr().err


def test_the_shipped_waivers_are_valid_and_the_locks_are_read() -> None:
    """Both are there, and each pin of each lock file is asked for."""
    assert isinstance(audit.waivers(audit.WAIVERS), list)
    found = audit.pins([audit.ROOT / each for each in audit.LOCKS])
    assert {"aiohttp", "hatchling", "pytest"} <= {each.name for each in found}

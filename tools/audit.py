"""Asks a vulnerability database about every package of the lock files.

    python -m tools.audit [--service URL] [--waivers FILE] [LOCK ...]

    0  no known vulnerability, or each is waived in audit-waivers.toml
    1  a vulnerability without a waiver, or a waiver that has expired or is for nothing
    2  the database did not answer, or answered something else: nothing is known

The database is OSV, which has the advisories of the Python Packaging Authority and of GitHub. All pins are asked for, also
those for other platforms and interpreters, in one request. The network is needed, hence it is not part of `make check`.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import NamedTuple
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import Request, urlopen

from tools.image.sbom import PIN

ROOT = Path(__file__).resolve().parents[1]
LOCKS = ("requirements.lock", "requirements-build.lock", "requirements-dev.lock")
WAIVERS = ROOT / "audit-waivers.toml"
SERVICE = "https://api.osv.dev/v1/querybatch"
SECONDS = 30
MAX_ANSWER = 16 << 20


class Pin(NamedTuple):
    """A package at one version."""

    name: str
    version: str


class Finding(NamedTuple):
    """A known vulnerability of a pin."""

    pin: Pin
    id: str


class Waiver(NamedTuple):
    """A vulnerability that is accepted until a day, with the reason."""

    id: str
    package: str
    until: date
    reason: str


class Unanswered(Exception):
    """The database did not say whether there are vulnerabilities."""


def pins(locks: Sequence[Path]) -> list[Pin]:
    """The packages of all lock files, each version once."""
    return sorted({Pin(each["name"], each["version"]) for lock in locks for each in PIN.finditer(lock.read_text())})


def waivers(path: Path) -> list[Waiver]:
    """Those of the file; ValueError, with the entry, if a field is missing or of another type."""
    found = []
    for entry in tomllib.loads(path.read_text()).get("waiver", []):
        waiver = Waiver(*(entry.get(field) for field in Waiver._fields))
        if type(waiver.until) is not date or not all(
            isinstance(each, str) and each for each in waiver if each is not waiver.until
        ):
            raise ValueError(f"{path.name}: {entry}: a waiver has id, package, reason and a date without quotes, until")
        found.append(waiver)
    return found


def ask(asked: Sequence[Pin], service: str) -> list[Finding]:
    """What the database knows about these packages; Unanswered unless it answered for each of them."""
    queries = [{"package": {"ecosystem": "PyPI", "name": pin.name}, "version": pin.version} for pin in asked]
    results = _post(service, {"queries": queries}).get("results")
    if (
        not isinstance(results, list)
        or len(results) != len(asked)
        or not all(isinstance(each, dict) for each in results)
    ):
        raise Unanswered(f"{service} did not answer for each of {len(asked)} packages")
    if any("next_page_token" in each for each in results):
        raise Unanswered(f"{service} answered in part: ask for fewer packages, by naming one lock file")
    return [
        Finding(pin, each["id"]) for pin, answer in zip(asked, results, strict=True) for each in answer.get("vulns", ())
    ]


def _post(service: str, question: dict[str, object]) -> dict[str, object]:
    if urlsplit(service).scheme not in ("http", "https"):
        raise Unanswered(f"{service} is not a URL of http or https")
    request = Request(service, json.dumps(question).encode(), {"Content-Type": "application/json"})  # noqa: S310 (checked above)
    try:
        with urlopen(request, timeout=SECONDS) as answer:  # noqa: S310 (checked above)
            decoded = json.loads(answer.read(MAX_ANSWER))
    except (OSError, URLError, ValueError) as error:
        raise Unanswered(f"{service} cannot be asked: {error}") from error
    if not isinstance(decoded, dict):
        raise Unanswered(f"{service} answered no JSON object")
    return decoded


def problems(found: Sequence[Finding], accepted: Sequence[Waiver], today: date) -> Iterator[str]:
    """A line for each vulnerability without a waiver, and for each waiver that has expired or is for nothing."""
    waived = {(each.package, each.id) for each in accepted}
    for finding in found:
        if (finding.pin.name, finding.id) not in waived:
            name = f"{finding.pin.name} {finding.pin.version}"
            yield f"{name}: {finding.id}; upgrade it (make lock ARGS=--upgrade), or waive it in {WAIVERS.name}"
    known = {(each.pin.name, each.id) for each in found}
    for waiver in accepted:
        if (waiver.package, waiver.id) not in known:
            yield f"{waiver.package}: {waiver.id} is waived, but no locked version has it; remove the waiver"
        elif waiver.until < today:
            yield f"{waiver.package}: the waiver of {waiver.id} expired on {waiver.until}"


def main(arguments: Sequence[str]) -> int:
    """Print the problems, or that there are none."""
    parser = argparse.ArgumentParser(prog="python -m tools.audit", description=__doc__)
    parser.add_argument("--service", default=SERVICE)
    parser.add_argument("--waivers", type=Path, default=WAIVERS)
    parser.add_argument("locks", nargs="*", type=Path, default=[ROOT / each for each in LOCKS])
    given = parser.parse_args(arguments)
    asked = pins(given.locks)
    try:
        accepted, found = waivers(given.waivers), ask(asked, given.service)
    except (Unanswered, ValueError) as reason:
        print(f"audit: {reason}; NOT AUDITED: {len(asked)} packages", file=sys.stderr)
        return 2
    lines = list(problems(found, accepted, datetime.now(UTC).date()))
    print("\n".join(lines) or f"{len(asked)} packages, {len(found)} known vulnerabilities, all of them waived")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

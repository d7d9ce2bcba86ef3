"""`trimtab replay FILE`: runs a recording through a new engine, and prints whether the same decisions come out."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from trimtab.config.diagnostics import printable

BAD_INPUT = 2
MAX_SHOWN = 1_000  # characters of one output

if TYPE_CHECKING:
    from trimtab.apps.replay import Difference, Replay
    from trimtab.core.controllers import Output
    from trimtab.core.model.events import ConfigText
    from trimtab.core.recording import Header, Record


@click.command("replay")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--print", "print_records", is_flag=True, help="Print the header and every record as lines of JSON.")
@click.option("--until", metavar="N|TIME", help="Stop after record N, or before TIME (2026-01-31T08:00:00Z).")
@click.option("--explain", "explained", metavar="pod/NAMESPACE/NAME", help="Explain the pod as of where it stopped.")
def command(file: Path, print_records: bool, until: str | None, explained: str | None) -> None:
    """Replay a recording of `trimtab run --record FILE`, and compare the decisions.

    Exit code 0: the same decisions; 1: others; 2: FILE cannot be replayed.
    """
    from trimtab.apps.recording import RecordingError
    from trimtab.apps.replay import Replay, ReplayError

    stop, key = _parse_until(until), _parse_pod(explained)
    try:
        replay = Replay(file)
        if print_records:
            click.echo(_header_as_json(replay.header))
        for record in _with_progress(replay, stop, hidden=print_records):
            if print_records:
                click.echo(_as_json(record, replay.result.records))
    except (RecordingError, ReplayError) as error:
        click.echo(printable(f"trimtab: {error}."), err=True)
        sys.exit(BAD_INPUT)
    except OSError as error:
        click.echo(printable(f"trimtab: {file} cannot be read: {error.strerror or error}."), err=True)
        sys.exit(BAD_INPUT)
    report = "\n".join(map(printable, _report(replay)))
    click.echo(report, err=print_records)
    if key:
        click.echo(_explain(replay, key))
    sys.exit(1 if replay.result.different_records else 0)


def _parse_until(until: str | None) -> Callable[[Record, int], bool]:
    if until is None:
        return lambda record, number: False
    if until.isdecimal():
        last = int(until)
        return lambda record, number: number > last
    try:
        time = datetime.fromisoformat(until)
    except ValueError:
        message = f"{until!r} is neither a record number nor a time like 2026-01-31T08:00:00Z"
        raise click.BadParameter(message, param_hint="--until") from None
    limit = (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return lambda record, number: record.event.at >= limit


def _parse_pod(explained: str | None) -> str:
    kind, _, key = (explained or "pod/").partition("/")
    if kind != "pod" or (explained and key.count("/") != 1):
        raise click.BadParameter(f"{explained!r} is not pod/NAMESPACE/NAME", param_hint="--explain")
    return key


def _with_progress(replay: Replay, stop: Callable[[Record, int], bool], *, hidden: bool) -> Iterator[Record]:
    """The records; on a terminal a bar shows how much of the file is done."""
    with _progress_bar(replay.reader.size, hidden) as show:
        for record in replay.run(stop):
            show(replay.reader.offset)
            yield record


@contextmanager
def _progress_bar(size: int, hidden: bool) -> Iterator[Callable[[int], None]]:
    if hidden or not sys.stderr.isatty():
        yield lambda offset: None
        return
    with click.progressbar(length=size, label="replaying", file=sys.stderr) as bar:
        yield lambda offset: bar.update(offset - bar.pos) if offset > bar.pos else None


def _report(replay: Replay) -> Iterator[str]:
    result, header = replay.result, replay.header
    yield f"recorded by trimtab {header.trimtab} ({header.platform}), controllers: {', '.join(header.controllers)}"
    if header.snapshot_events:
        yield (
            f"the file starts from a snapshot of {header.snapshot_events} events: back-off, binds under way and older "
            "samples are not in it, so decisions may differ for that reason"
        )
    if replay.reader.truncated:
        yield (
            f"the last {replay.reader.truncated} bytes, from byte {replay.reader.offset} on, were not written whole and "
            "are left out"
        )
    yield f"{result.records} records from {_time(result.first)} to {_time(result.last)}"
    yield from (f"  {count:>9} {name}" for name, count in result.events.most_common())
    yield f"same decisions: {result.same_decisions} of {result.decisions}"
    yield f"same instructions: {result.same_instructions} of {result.instructions}"
    if result.other_scores:
        yield f"same decisions with other scores or another attempt number: {result.other_scores}"
    for difference in result.differences:
        yield from _difference(difference)
    if (more := result.different_records - len(result.differences)) > 0:
        yield f"{more} more records differ"


def _difference(difference: Difference) -> Iterator[str]:
    yield f"record {difference.record} at {_time(difference.at)} ({difference.event}) differs:"
    yield from (f"  recorded: {_output(output)}" for output in difference.recorded)
    yield from (f"  replayed: {_output(output)}" for output in difference.replayed)
    if difference.error:
        yield from (f"  {line}" for line in difference.error.rstrip().splitlines())


def _output(output: Output) -> str:
    """A decision in a few words, an instruction in full."""
    from trimtab.core.model.schedule_result import Decision, Placement

    if not isinstance(output, Decision):
        return repr(output)[:MAX_SHOWN]
    head = f"pod {output.pod}, attempt {output.attempt}: "
    if isinstance(output.verdict, Placement):
        best = ", ".join(f"{each.node} {each.total:.9g}" for each in output.verdict.best)
        return f"{head}{output.verdict.node} of {output.verdict.feasible} feasible nodes (best: {best})"[:MAX_SHOWN]
    return f"{head}{output.verdict.message()}"[:MAX_SHOWN]


def _header_as_json(header: Header) -> str:
    """The configuration is in it, so that whoever sends the file can see what it holds."""
    line = {"record": 0, "time": _time(header.started), "event": "Header", **msgspec.structs.asdict(header)}
    return msgspec.json.encode({**line, "config": _config(header.config)}).decode()


def _as_json(record: Record, number: int) -> str:
    event = msgspec.structs.asdict(record.event)
    if "settings" in event:  # plugins are objects: the text that they were read from stands for them
        event = {**event, "settings": None, "config": _config(event["config"])}
    line: dict[str, Any] = {"record": number, "time": _time(record.event.at), "event": type(record.event).__name__}
    whole = {**line, **event, "outputs": record.outputs}
    try:
        return msgspec.json.encode(whole).decode()
    except OverflowError:  # a number of more than 64 bits
        return json.dumps(msgspec.to_builtins(whole))


def _config(config: ConfigText) -> dict[str, Any]:
    included = {path: content.decode(errors="replace") for path, content in config.included}
    return {"file": config.file, "content": config.content.decode(errors="replace"), "included": included}


def _explain(replay: Replay, key: str) -> str:
    from trimtab.cli.explain import render

    explanation = replay.explain(key)
    if explanation is None:
        return printable(f"pod {key} is not known after record {replay.result.records}")
    return render("pod", msgspec.to_builtins(explanation), ())


def _time(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"

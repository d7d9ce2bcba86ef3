"""Decoding speed, into the model's pods vs plain dicts; and memory per pod that is kept.

Both decoders get the same bytes in turn, in several rounds; the best round of each counts, in CPU time, with the garbage
collector off for both (on, it costs the dicts far more). Each keeps one page of 500 pods at a time or, where the row says so,
none: then the dicts are freed while they are still in the CPU cache, which favours them most. Memory is the growth of a new
process that keeps 100,000 pods, tables included.
"""

from __future__ import annotations

import gc
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from bench.api_objects import running_pod
from trimtab.wire.pod import PodReader
from trimtab.wire.watch import decode_list

PODS = 20_000
KEPT_PODS = 100_000
PAGE = 500
ROUNDS = 5

Pages = list[list[bytes]]


class Row(NamedTuple):
    """Pods per second of CPU, ours and as dicts."""

    what: str
    ours: float
    dicts: float

    @property
    def ratio(self) -> float:
        return self.ours / self.dicts


def table(pods: int = PODS, rounds: int = ROUNDS) -> list[Row]:
    """Rows for new and known pods, kept by the page and freed at once, and one for whole lists."""
    pages = [[running_pod(i) for i in range(start, start + PAGE)] for start in range(0, pods, PAGE)]
    warm = PodReader()
    _decode_pages(pages, warm.read)
    singles = [[data] for page in pages for data in page]
    rows = [
        _row("new", pages, rounds, lambda: PodReader().read),
        _row("known", pages, rounds, lambda: warm.read),
        _row("new, none kept", singles, rounds, lambda: PodReader().read),
        _row("known, none kept", singles, rounds, lambda: warm.read),
    ]
    lists = [[_list(page)] for page in pages]
    listed = _row("lists of 500", lists, rounds, lambda: _read_lists(PodReader()))
    return [*rows, Row(listed.what, listed.ours * PAGE, listed.dicts * PAGE)]


def bytes_a_pod(pods: int = KEPT_PODS) -> float:
    """Memory growth of a process per pod that it keeps."""
    answer = subprocess.run(
        [sys.executable, "-m", "bench.decode", "--keep", str(pods)], check=True, capture_output=True, text=True
    )
    return float(answer.stdout)


def main() -> None:
    sizes = [len(running_pod(i)) for i in range(1000)]
    print(f"{PODS:,} running pods of {min(sizes):,} to {max(sizes):,} bytes, best of {ROUNDS} rounds, collector off")
    print(f"{'':24}{'model pods/s':>14}{'dicts/s':>12}{'ratio':>8}")
    for row in table():
        print(f"{row.what:24}{row.ours:>14,.0f}{row.dicts:>12,.0f}{row.ratio:>7.2f}x")
    print(f"memory: {bytes_a_pod():,.0f} bytes per pod at {KEPT_PODS:,} pods (goal 2,500)")


def _row(what: str, pages: Pages, rounds: int, ours: Callable[[], Callable[[bytes], Any]]) -> Row:
    best_ours = best_dicts = float("inf")
    gc.collect()
    gc.disable()
    try:
        for _ in range(rounds):
            best_ours = min(best_ours, _decode_pages(pages, ours()))
            best_dicts = min(best_dicts, _decode_pages(pages, msgspec.json.decode))
    finally:
        gc.enable()
    count = sum(len(page) for page in pages)
    return Row(what, count / best_ours, count / best_dicts)


def _decode_pages(pages: Pages, decode: Callable[[bytes], Any]) -> float:
    began = time.process_time()
    held: list[Any] = []
    for page in pages:
        held[:] = [decode(data) for data in page]
    return time.process_time() - began


def _list(page: list[bytes]) -> bytes:
    head = b'{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"6000000"},"items":['
    return head + b",".join(page) + b"]}"


def _read_lists(reader: PodReader) -> Callable[[bytes], Any]:
    return lambda data: decode_list(data, reader)


def _growth(pods: int) -> float:
    reader = PodReader()
    kept = {str(i): reader.read(running_pod(i)) for i in range(PAGE)}
    before = _resident()
    for i in range(PAGE, PAGE + pods):
        pod = reader.read(running_pod(i))
        kept[getattr(pod, "uid", "")] = pod
    gc.collect()
    return (_resident() - before) / pods


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--keep"]:
        print(_growth(int(sys.argv[2])))
    else:
        main()

"""`trimtab demo`: the same bytes for the same seed, plain text in a pipe, clear messages for bad options.

The parts are shown by processes of their own, each of them once, because both together take a while.
"""

import io
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest
from rich.console import Console

from trimtab.apps.demo import Demo
from trimtab.apps.demo_events import DemoEvent, MovesEnded, SceneStarted, SchedulingEnded
from trimtab.cli import demo_moves_screen, demo_screen, main
from trimtab.cli.demo import LiveScreen, show_live


def demo(*options: str, **environment: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "trimtab", "demo", *options],
        capture_output=True,
        env={**os.environ, "PYTHONIOENCODING": "utf-8", **environment},
        timeout=240,
        check=False,
    )


def shown_part(part: str) -> bytes:
    done = demo(part, "--seed", "1")
    assert (0, b"") == (done.returncode, done.stderr)
    return done.stdout


@pytest.fixture(scope="module")
def shown() -> bytes:
    return shown_part("scheduling")


@pytest.fixture(scope="module")
def shown_moves() -> bytes:
    return shown_part("moves")


@pytest.mark.parametrize("options", [("--speed", "0"), ("--speed", "50", "--plain")])
def test_the_same_seed_shows_the_same_bytes(shown: bytes, options: tuple[str, ...]) -> None:
    """Another process, another hash seed and another speed change nothing; in a pipe the output is plain by itself."""
    assert shown == demo("scheduling", "--seed", "1", *options, PYTHONHASHSEED=str(len(options) + 5)).stdout


def test_another_seed_shows_something_else(shown: bytes) -> None:
    """Randomness comes from the seed."""
    assert shown.splitlines()[5:] != demo("scheduling", "--seed", "8").stdout.splitlines()[5:]


def test_plain_text_has_no_control_characters_and_fits_a_hundred_columns(shown: bytes) -> None:
    """In a pipe the output is plain text in lines of at most a hundred characters."""
    lines = shown.decode().splitlines()
    assert [] == [line for line in lines if not line.isprintable() or len(line) > demo_screen.WIDTH]


def test_the_end_says_what_became_of_each_pod_and_how_to_go_on(shown: bytes) -> None:
    """The last lines are a table of sixteen pods with node and reason, a summary, the comparison, and what to try next."""
    text = shown.decode()
    head, *rest = text[text.index("pod     asks") :].splitlines()
    assert ["pod", "asks", "node", "why"] == head.split()
    assert [f"pod-{number}" for number in range(1, 17)] == [line.split()[0] for line in rest[:16]]
    assert all("worker-" in line and ("score" in line or "only feasible node" in line) for line in rest[:16])
    assert "16 of 16 pods bound; on the tainted node: none; nodes asked for more than they have: none." == rest[17]
    assert rest[-1].startswith("README.md says how to run Trimtab on a cluster")


def test_the_comparison_is_a_table_of_what_both_runs_came_to(shown: bytes) -> None:
    """Each line has the value by measured load and the one by requests, as the demo counted them."""
    text = shown.decode()
    rows = [line.rsplit(maxsplit=2) for line in text[text.index("pods of scenes 1 and 2") :].splitlines()[1:7]]
    (ended,) = (each for each in moments() if isinstance(each, SchedulingEnded))
    assert [
        "scheduled to worker-2 while the process ran there",
        str(ended.measured.on_hot_node),
        str(ended.requested.on_hot_node),
    ] == rows[0]
    assert ["pods pending at the end", "0", "0"] == rows[-1]


def test_it_opens_with_a_node_that_runs_hot_and_its_label(shown: bytes) -> None:
    """The label is added in the first scene and removed in the second, each with time and reason."""
    scenes = shown.decode().split("\nScene ")
    assert scenes[1].startswith("1 of 8: A node runs hot")
    assert "worker-2 is labelled pressure.trimtab.dev/cpu=high\n            cpu is 0." in scenes[1]
    assert "worker-2 loses the label pressure.trimtab.dev/cpu\n            no rule holds any more" in scenes[2]
    assert "\n  cpu=high, " in scenes[1] and "cpu=high" not in scenes[2]


def test_the_samples_in_the_readme_are_what_is_shown(shown: bytes, shown_moves: bytes) -> None:
    """Each line of them is in the output of seed 1; if not, update the README."""
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    for begins, part in (("$ make demo", shown), ("$ trimtab demo moves", shown_moves)):
        sample = readme[readme.index(begins) :].split("```")[0].splitlines()[1:]
        told = [line for line in sample if line.strip() not in ("", "…")]
        assert 6 < len(told)
        assert [] == [line for line in told if line not in part.decode().splitlines()]


def test_moves_are_plain_text_of_eighty_columns_and_ascii_where_that_is_needed(shown_moves: bytes) -> None:
    """In another process, with another hash seed, the same lines in ASCII."""
    lines = shown_moves.decode().splitlines()
    assert [] == [line for line in lines if not line.isprintable() or len(line) > demo_moves_screen.WIDTH]
    done = demo("moves", "--seed", "1", PYTHONIOENCODING="ascii", PYTHONHASHSEED="7", NO_COLOR="1")
    assert shown_moves.decode().translate(demo_screen.ASCII).encode("ascii") == done.stdout


def test_moves_show_plan_steps_grades_and_both_days(shown_moves: bytes) -> None:
    """The plan as `trimtab plan` prints it, each move with the pods that are ready, its grade, and the comparison."""
    text = shown_moves.decode()
    plan, moves = text.split("\nScene ")[1:]
    assert plan.startswith("1 of 2: A node is about to run hot") and moves.startswith(
        "2 of 2: The replacement comes first"
    )
    assert "Trimtab would move 1 pod of the simulated cluster (6 nodes, 40 pods)" in plan
    assert "nodes above it" in plan and "Nothing was changed: `trimtab plan` only reads." in plan
    assert "leaving  it is ready: now the old pod leaves 9 of 8 ready" in moves
    assert "promised" in moves and "after 30 min: it helped" in moves and "after 6 h: it helped" in moves
    (ended,) = (each for each in moments() if isinstance(each, MovesEnded))
    rows = dict(line.rsplit(maxsplit=2)[::2] for line in moves.splitlines() if line.startswith("node-minutes above"))
    assert {"node-minutes above 80 % of CPU": f"{ended.unmoved.minutes_above_80:.0f}"} == rows
    assert any(line.split()[-2:] == ["0", "0"] for line in moves.splitlines() if line.startswith("seconds with fewer"))


def test_the_top_row_of_a_chart_is_what_is_above_the_limit(shown_moves: bytes) -> None:
    """The day with moves has nothing there, and the other one does."""
    (top,) = (line for line in shown_moves.decode().splitlines() if line.startswith("100% "))
    left, right = top[5:41], top[44:]
    assert "" == left.strip() != right.strip()


def test_both_parts_are_played_one_after_the_other() -> None:
    """Scenes are counted over both, and each part ends with its report."""
    scenes = [(each.number, each.of) for each in moments() if isinstance(each, SceneStarted)]
    assert [(number, 10) for number in range(1, 11)] == scenes
    ends = [type(each) for each in moments() if isinstance(each, SchedulingEnded | MovesEnded)]
    assert [SchedulingEnded, MovesEnded] == ends


def test_the_refusal_has_kube_schedulers_wording(shown: bytes) -> None:
    """An unschedulable pod has a count for each reason."""
    assert "0/4 nodes are available: 1 node(s) had untolerated taint(s), 3 Insufficient cpu." in shown.decode()


def test_a_terminal_without_unicode_gets_ascii(shown: bytes) -> None:
    """The same lines, with bars and arrows in ASCII."""
    done = demo("scheduling", "--seed", "1", PYTHONIOENCODING="ascii")
    assert 0 == done.returncode
    assert shown.decode().translate(demo_screen.ASCII).encode("ascii") == done.stdout


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (("--speed", "-1"), "-1 is neither 0 (no waiting) nor between 0.01 and 1000"),
        (("--speed", "nan"), "nan is neither 0"),
        (("--speed", "1e9"), "1e+09 is neither 0"),
        (("--speed", "fast"), "'fast' is not a number"),
        (("--seed", "-3"), "-3 is not in the range"),
        (("--seed", "two"), "'two' is not a whole number"),
        (("--seeed", "2"), "No such option"),
        (("again",), "'again' is not one of 'scheduling', 'moves'"),
        (("moves", "again"), "unexpected extra argument"),
    ],
)
def test_a_bad_option_is_named_and_exits_2(
    options: tuple[str, ...], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input ends with 2, says what is wrong, and shows nothing of the demo."""
    with pytest.raises(SystemExit) as ended:
        main.main(["demo", *options])
    out, err = capsys.readouterr()
    assert (2, "") == (ended.value.code, out)
    assert complaint in err


def test_the_command_is_listed_with_its_options() -> None:
    """`trimtab demo` is found by name and offers the parts and three options."""
    command = main.get_command(click.Context(main), "demo")
    assert command is not None
    assert ["part", "seed", "speed", "plain"] == [parameter.name for parameter in command.params]


@cache
def moments() -> tuple[DemoEvent, ...]:
    """All events of seed 1."""
    return tuple(Demo(1).events())


def live(width: int, height: int) -> tuple[str, list[float]]:
    """The output to a terminal of this size, and the waits."""
    sent, waits = io.StringIO(), list[float]()
    console = Console(file=sent, force_terminal=True, width=width, height=height, color_system="standard", _environ={})
    show_live(1, moments(), console, waits.append)
    return sent.getvalue(), waits


def test_the_live_picture_takes_a_minute_and_a_half_and_leaves_the_tables() -> None:
    """At speed 1 the waits add up to 65 to 90 s; afterwards the normal screen holds the tables and charts."""
    sent, waits = live(100, 40)
    assert 65 <= sum(waits) <= 90
    left = sent[sent.rindex("\x1b[?1049l") :]
    assert "pod-16" in left and "16 of 16 pods bound" in left
    assert "the same day without moves" in left and "node-minutes above 80 % of CPU" in left


def frames(width: int, height: int) -> Iterator[list[str]]:
    stage = LiveScreen(1)
    for moment in moments():
        stage.update(moment, width)
        yield [demo_screen.plain(line) for line in stage.lines(height)]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 30), (200, 60)])
def test_every_frame_fits_the_terminal(width: int, height: int) -> None:
    """No frame is taller than the terminal, its bars and words are no wider, and decisions are shown whole."""
    shown = list(frames(width, height))
    assert [] == [len(frame) for frame in shown if len(frame) > height]
    assert [] == [line for frame in shown for line in frame if len(line) > width]
    assert any("pod-12 (0.25 CPU, 128 MiB) → worker" in line for frame in shown for line in frame)
    assert any("Trimtab would move 1 pod" in line for frame in shown for line in frame)
    assert any("now the old pod leaves" in line and "9 of 8 ready" in line for frame in shown for line in frame)


def test_a_frame_shows_bars_of_requested_and_used() -> None:
    """Request bars grow while pods are added, and usage is shown once it is measured."""
    first, *_, last = (frame for frame in frames(100, 40) if any("at 07:4" in line for line in frame))
    assert any("not measured yet" in line for line in first)
    workers = [line for line in last if line.startswith("  worker-1")]
    assert 1 == len(workers)
    assert 5 < workers[0].count("█")

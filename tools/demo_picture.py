"""Draws the picture of the demo that the README opens with, from the demo itself.

    python -m tools.demo_picture     rewrites docs/img/demo.svg

The picture is the live screen at the moment when the hot node gets its label. A test checks that the committed file is what
the demo shows.
"""

import io
import re
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console
from rich.text import Text

from trimtab.apps.demo import Demo
from trimtab.apps.demo_events import ClusterFrame, DemoEvent, NodeLabelled
from trimtab.cli.demo import LiveScreen

FILE = Path(__file__).resolve().parent.parent / "docs" / "img" / "demo.svg"
SEED, WIDTH, HEIGHT = 1, 100, 32
# rich loads a font from another host; a picture in a README must not.
_FONT_FACES = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def screen_when_labelled(events: Iterable[DemoEvent]) -> LiveScreen:
    """The screen at the first frame after the first label."""
    screen, labelled = LiveScreen(SEED), False
    for event in events:
        screen.update(event, WIDTH)
        labelled = labelled or isinstance(event, NodeLabelled)
        if labelled and isinstance(event, ClusterFrame):
            return screen
    raise ValueError("the demo labels no node")


def draw() -> str:
    """The picture as SVG."""
    lines = screen_when_labelled(Demo(SEED).events()).lines(HEIGHT)
    console = Console(record=True, width=WIDTH, file=io.StringIO(), color_system="truecolor")
    console.print(Text("\n", no_wrap=True).join(Text.assemble(*line) for line in lines))
    svg = console.export_svg(title="make demo", unique_id="demo")
    return _FONT_FACES.sub("", svg).replace("Fira Code", "ui-monospace, Menlo, Consolas").strip() + "\n"


if __name__ == "__main__":
    FILE.write_text(draw())

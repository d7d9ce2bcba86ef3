"""Prints lines of styled text: coloured on a terminal, as far as NO_COLOR and the terminal allow it, and plain elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from trimtab.config.diagnostics import printable

if TYPE_CHECKING:
    from trimtab.apps.plan.text import Line

ASCII = str.maketrans({"→": "->"})


def print_lines(lines: Iterable[Line]) -> None:
    _print_styled(lines) if sys.stdout.isatty() else _print_plain(lines)


def _print_styled(lines: Iterable[Line]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for line in lines:
        console.print(Text.assemble(*((printable(text), style) for text, style in line)), soft_wrap=True)


def _print_plain(lines: Iterable[Line]) -> None:
    unicode = (sys.stdout.encoding or "").lower().startswith("utf")
    for line in lines:
        text = printable("".join(text for text, _ in line))
        click.echo(text if unicode else text.translate(ASCII))

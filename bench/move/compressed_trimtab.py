"""Trimtab in compressed time: `python -m bench.move.compressed_trimtab SPEED run --config FILE …`.

The snapshots that plans are made of are means of five minutes and one an hour, which no setting changes. Here they are
divided by the speed, as all intervals in the configuration are. Timeouts stay: they are about the API server and other
controllers, which take their time. With a speed of 1 this is Trimtab as it is.
"""

from __future__ import annotations

import sys
from importlib import import_module

COMPRESSED = {"trimtab.core.load.snapshots": ("FIVE_MINUTES", "HOUR")}


def compress(speed: float) -> None:
    """Divide the constants; an AttributeError says that one of them is gone."""
    for module, names in COMPRESSED.items():
        for name in names:
            setattr(import_module(module), name, getattr(import_module(module), name) / speed)


def main(arguments: list[str]) -> None:
    """The speed, then the arguments of trimtab."""
    from trimtab.cli import main as trimtab

    compress(float(arguments[0]))
    sys.argv = ["trimtab", *arguments[1:]]
    trimtab()


if __name__ == "__main__":
    main(sys.argv[1:])

"""Writes the files of deploy/monitoring, with another address of the runbooks if you like.

    python -m tools.monitoring [--runbooks https://example.com/runbooks] [--output FOLDER]

`make manifests` writes them, too, with all other files in deploy/ that are made from something else.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from tools.monitoring.alert import RUNBOOKS
from tools.monitoring.files import FOLDER, files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runbooks", default=RUNBOOKS, help="where the pages of docs/runbooks are served")
    parser.add_argument("--output", type=Path, default=FOLDER)
    options = parser.parse_args()
    for name, text in files(options.runbooks).items():
        path = options.output / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(path)


if __name__ == "__main__":
    main()

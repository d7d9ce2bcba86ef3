"""Runs the command line as `python -m trimtab`; what the commands do is left to trimtab.cli."""

from trimtab.cli import main

if __name__ == "__main__":
    main()

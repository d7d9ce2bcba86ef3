"""A length of time among a plugin's arguments; how files write it is left to `config`."""

from __future__ import annotations


class Span(float):
    """Seconds, which files write as Go does: `15s`, `1h30m`."""

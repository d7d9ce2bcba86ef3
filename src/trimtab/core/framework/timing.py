"""How a decision's time is split among plugins by someone who has a clock; here are only the marks."""

from __future__ import annotations


class PluginTimer:
    """`mark` is called after each plugin's work; without a clock it does nothing."""

    def record(self, point: str, plugin: str) -> None:
        """The time since the last mark went to this plugin at this extension point."""


NO_TIMER = PluginTimer()

"""A reader's position in the node table's change log."""

from __future__ import annotations

from trimtab.core.cluster.node_table import EVERY_ROW
from trimtab.core.cluster.view import View
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.change import Change

MAX_ROWS = 64  # changed rows, above which all of them at once are cheaper


class ChangeCursor:
    """Finds the rows changed since the last call, for changes in `mask`; not for overlays, which have no log."""

    __slots__ = ("_epoch", "_mask", "_position", "_settings")

    def __init__(self, mask: Change) -> None:
        self._mask, self._epoch, self._position = int(mask), -1, 0
        self._settings: LoadSettings | None = None

    def rows(self, view: View) -> list[int] | None:
        """Changed rows in order; None if all rows may have changed."""
        nodes, settings, mask = view.node_table, view.load.settings, self._mask
        if nodes.epoch != self._epoch or settings is not self._settings or len(nodes.log) < self._position:
            found = None
        else:
            fresh = {row for change, row in nodes.log[self._position :] if change & mask}
            found = None if EVERY_ROW in fresh or len(fresh) > MAX_ROWS else sorted(fresh)
        self._epoch, self._position, self._settings = nodes.epoch, len(nodes.log), settings
        return found

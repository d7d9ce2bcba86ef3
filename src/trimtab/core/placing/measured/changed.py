"""Which rows have changed since somebody last asked, by the columns' log; what is kept for the others is theirs to say."""

from __future__ import annotations

from trimtab.core.cluster.columns import EVERY_ROW
from trimtab.core.cluster.view import View
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.change import Change

MOST = 64  # changed rows, above which all of them at once are cheaper


class Changed:
    """One reader's place in the log of one cluster, who is told of these changes; not for overlays, which have no log."""

    __slots__ = ("_at", "_epoch", "_settings", "_telling")

    def __init__(self, telling: Change) -> None:
        self._telling, self._epoch, self._at = int(telling), -1, 0
        self._settings: LoadSettings | None = None

    def rows(self, view: View) -> list[int] | None:
        """Rows that have changed; None if that is all, or nobody can tell."""
        columns, settings, telling = view.columns, view.load.settings, self._telling
        if columns.epoch != self._epoch or settings is not self._settings or len(columns.log) < self._at:
            found = None
        else:
            fresh = {row for change, row in columns.log[self._at :] if change & telling}
            found = None if EVERY_ROW in fresh or len(fresh) > MOST else sorted(fresh)
        self._epoch, self._at, self._settings = columns.epoch, len(columns.log), settings
        return found

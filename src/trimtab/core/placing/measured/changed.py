"""Which rows have changed since somebody last asked, by the columns' log; what is kept for the others is theirs to say."""

from __future__ import annotations

from trimtab.core.cluster.columns import EVERY_ROW
from trimtab.core.cluster.view import View
from trimtab.core.load.settings import LoadSettings
from trimtab.core.model.change import Change

TELLING = int(Change.PODS | Change.LOAD | Change.ALLOCATABLE)
MOST = 64  # changed rows, above which all of them at once are cheaper


class Changed:
    """One reader's place in the log of one cluster; not for overlays, which have none."""

    __slots__ = ("_at", "_epoch", "_settings")

    def __init__(self) -> None:
        self._epoch, self._at = -1, 0
        self._settings: LoadSettings | None = None

    def rows(self, view: View) -> list[int] | None:
        """Rows of which pods, load or offers have changed; None if that is all, or nobody can tell."""
        columns, settings = view.columns, view.load.settings
        if columns.epoch != self._epoch or settings is not self._settings or len(columns.log) < self._at:
            found = None
        else:
            fresh = {row for change, row in columns.log[self._at :] if change & TELLING}
            found = None if EVERY_ROW in fresh or len(fresh) > MOST else sorted(fresh)
        self._epoch, self._at, self._settings = columns.epoch, len(columns.log), settings
        return found

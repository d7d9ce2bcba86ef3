"""Utilisation of nodes as strategies compare it."""

from __future__ import annotations

import numpy as np

from trimtab.core.cluster.view import View
from trimtab.core.tables import Bools, Floats, Index


def expected_utilisation(view: View, resource: str) -> Floats:
    """By the newest sample, with the pods that it does not show yet, as a share of what pods may use; NaN where unknown."""
    usable = view.usable(resource)
    return np.asarray(view.load.expected(resource) / np.where(usable > 0, usable, np.nan))


def highest_first(chosen: Bools, values: Floats) -> list[int]:
    """The chosen rows by their value."""
    rows: Index = np.flatnonzero(chosen)
    return [int(row) for row in rows[np.argsort(-values[rows], kind="stable")]]

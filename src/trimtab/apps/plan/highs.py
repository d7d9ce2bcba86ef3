"""Solves the integer program of an exact plan with HiGHS, an optional dependency that is imported when it is needed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np

from trimtab.core.rescheduling.exact import NoExactPlan, Program

EXTRA = "pip install 'trimtab[optimal]'"
SECONDS = 60.0  # for one program


def highs() -> Any:
    """The library; raises NoExactPlan with the remedy where it is missing."""
    try:
        return import_module("highspy")
    except ImportError:
        raise NoExactPlan(f"the package highspy is not installed: run `{EXTRA}`, or leave out --exact") from None


def solve(program: Program) -> Sequence[int]:
    """The numbers of the columns that are 1 in a solution that is proved to be the best one."""
    library = highs()
    solver = library.Highs()
    solver.setOptionValue("output_flag", False)
    solver.setOptionValue("threads", 1)
    solver.setOptionValue("mip_rel_gap", 0.0)
    solver.setOptionValue("mip_abs_gap", 1e-4)
    solver.setOptionValue("time_limit", SECONDS)
    solver.passModel(_model(library, program))
    solver.run()
    status = solver.getModelStatus()
    if status != library.HighsModelStatus.kOptimal:
        reason = solver.modelStatusToString(status)
        raise NoExactPlan(f"HiGHS found no best plan within {SECONDS:.0f} s ({reason}): leave out --exact")
    return [number for number, value in enumerate(solver.getSolution().col_value) if value > 0.5]


def _model(library: Any, program: Program) -> Any:
    model, count = library.HighsLp(), len(program.columns)
    model.num_col_, model.num_row_ = count, len(program.lower)
    model.col_cost_ = np.array(program.costs)
    model.col_lower_, model.col_upper_ = np.zeros(count), np.ones(count)
    model.row_lower_, model.row_upper_ = np.array(program.lower), np.array(program.upper)
    model.integrality_ = [library.HighsVarType.kInteger] * count
    matrix = model.a_matrix_
    matrix.format_ = library.MatrixFormat.kColwise
    matrix.start_ = np.cumsum([0, *map(len, program.columns)])
    matrix.index_ = np.array([row for column in program.columns for row in column], dtype=np.int32)
    matrix.value_ = np.array([value for column in program.columns for value in column.values()])
    return model

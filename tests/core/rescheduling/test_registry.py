"""Strategies and rivals are registered by their names, with documented arguments."""

import pytest

from trimtab.config.schema import document_fields, fields_of
from trimtab.core.rescheduling.strategies.registry import RIVALS, STRATEGIES


@pytest.mark.parametrize("name", [*STRATEGIES, *RIVALS])
def test_every_argument_is_documented(name: str) -> None:
    """Each can be created without arguments, and every argument has its documentation."""
    kind = {**STRATEGIES, **RIVALS}[name]
    assert name == kind().name
    listed = {path.partition(".")[2].partition(".")[0] for path, _ in document_fields(kind, f"{name}Args.")}
    assert listed == {field.key for field in fields_of(kind)}

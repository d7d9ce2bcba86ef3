"""Records of the ledger for tests."""

from __future__ import annotations

from typing import Any

from trimtab.core.model.ledger import Grade, MoveRecord, MoveState

STRATEGY = "ResourceOptimization"


def done(name: str = "web", **fields: Any) -> MoveRecord:
    """A move from a to b that ended at 0 and was worth its cost; its replacement is called as it is, with `-2`."""
    known: dict[str, Any] = {
        "uid": name,
        "namespace": "default",
        "pod": name,
        "workload": f"Deployment {name}",
        "slot": ("default", f"owner-of-{name}", ""),
        "source": "a",
        "target": "b",
        "node": "b",
        "strategy": STRATEGY,
        "at": 0.0,
        "state": MoveState.DONE,
        "gain": 80.0,
        "cost": 32.0,
        "replacement": f"{name}-2",
        "relief": 1.0,
        "promised": (0.7, 0.3),
    }
    return MoveRecord(**{**known, **fields})


def graded(*helped: bool, strategy: str = STRATEGY, last_ended: float = 0.0, **fields: Any) -> tuple[MoveRecord, ...]:
    """One after the other, a second apart."""
    return tuple(
        done(
            f"{strategy}-{number}",
            strategy=strategy,
            ended=last_ended - (len(helped) - 1 - number),
            grades=(Grade(1800.0, 1.0, 0.5 if each else -0.5),),
            **fields,
        )
        for number, each in enumerate(helped)
    )

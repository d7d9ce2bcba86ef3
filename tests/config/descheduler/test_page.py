"""docs/migrating-from-descheduler.md has every plugin, and its example converts without problems."""

from __future__ import annotations

import re
from pathlib import Path

from tests.config.descheduler.policies import FILE, messages
from trimtab.config.descheduler.equivalent import convert_policy
from trimtab.config.descheduler.rivals import read_rival
from trimtab.config.descheduler.shapes import STRATEGY_ARGS, WITHOUT_COUNTERPART

PAGE = (Path(__file__).parents[3] / "docs" / "migrating-from-descheduler.md").read_text()


def test_plugins() -> None:
    """The table has those that are converted, and the text the others."""
    (found,) = re.findall(r"^\| plugin \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert sorted(STRATEGY_ARGS) == sorted(line.strip("|").split(" | ")[0].strip() for line in found.splitlines())
    assert all(name in PAGE for name in WITHOUT_COUNTERPART)


def test_the_example() -> None:
    """As settings of Trimtab, and as the rival."""
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    found = convert_policy(example, FILE)
    assert ({"cpu": 0.75, "memory": 0.85}, 10, 600.0) == (
        *(found.settings.limits, found.settings.max_moves),
        found.settings.min_pod_age,
    )
    assert "payments" in found.settings.excluded_namespaces and ["metrics-server"] == [
        each.name for each in found.sources
    ]
    assert not [each for each in messages(found) if "not supported" in each]
    assert ["DeschedulerLowNodeUtilization"] == [each.name for each in read_rival(example, FILE).settings.strategies]

"""Parses the snapshot of a scenario file and reads it: a live cluster, from the moment of the snapshot on."""

from __future__ import annotations

from pathlib import Path

from trimtab.config.config_node import ConfigNode
from trimtab.sim.scenario import Scenario
from trimtab.sim.scenario_file.values import Fields
from trimtab.sim.snapshot_file import SnapshotError, read_snapshot
from trimtab.sim.snapshot_scenario import place_again, scenario_of

SNAPSHOT_FIELDS = {
    "file": "what `trimtab snapshot` wrote, relative to the scenario",
    "placeAgain": "false unless set: every pod but those of DaemonSets is placed again by the policy, the oldest first",
}


def load_snapshot(node: ConfigNode, folder: Path, seed: int) -> Scenario | None:
    """The snapshot as a scenario; None after a problem."""
    before = len(node.report.problems)
    fields = Fields(node, SNAPSHOT_FIELDS)
    file = fields.require("file", ConfigNode.string, "", "write the snapshot's file")
    again = fields.get("placeAgain", ConfigNode.boolean, False)
    if len(node.report.problems) > before:
        return None
    try:
        scenario = scenario_of(read_snapshot(folder / file))
    except SnapshotError as error:
        fields.at("file").error(str(error))
        return None
    return place_again(scenario) if again else scenario

"""Decides how kube-scheduler is set up as the rival: stock, and with only the plugins that Trimtab has."""

from __future__ import annotations

from trimtab.config.registry import DEFAULT_PLUGINS, IN_TREE

Config = dict[str, object]

LIFTED = {"qps": 5000, "burst": 5000}


def stock() -> Config:
    """As it comes, but for the limit on requests."""
    return {"clientConnection": LIFTED}


def only_ours() -> Config:
    """Without the default plugins that Trimtab does not have yet, so that both look at the same things."""
    missing = [{"name": name} for name in dict(DEFAULT_PLUGINS) if name not in IN_TREE and name != "DefaultBinder"]
    profile = {"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"disabled": missing}}}
    return {"clientConnection": LIFTED, "profiles": [profile]}

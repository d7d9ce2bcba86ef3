"""The lease's namespace is set in a configuration's text, and nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trimtab.apps.deploy.lease_setting import with_lease_namespace
from trimtab.cli.config import TEMPLATES, templates
from trimtab.config.configuration import Configuration
from trimtab.config.dump import dump
from trimtab.config.kube_scheduler import parse

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
OWN = "apiVersion: trimtab.dev/v1alpha1\nkind: TrimtabConfiguration\n"


def settings(configuration: Configuration) -> list[str]:
    """All of them, without the notes, whose line numbers move."""
    return [line for line in dump(configuration).splitlines() if not line.startswith("#")]


@pytest.mark.parametrize(
    "text",
    [
        HEAD,
        f"# a comment\n---\n{HEAD}",
        f"{HEAD}leaderElection:\n  # why\n  leaderElect: true\n",
        f"{HEAD}leaderElection:\n    resourceNamespace: kube-system # theirs\n    resourceName: x\n",
        f"{HEAD}leaderElection: {{resourceNamespace: 'kube-system', leaderElect: true}}\n",
        f"{HEAD}leaderElection: {{leaderElect: true}}\n",
        '{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}',
        OWN,
        f"{OWN}---\n{HEAD}",
        *(templates()[name] for name in TEMPLATES if name != "development"),
    ],
)
def test_the_namespace_is_set_and_everything_else_stays(text: str) -> None:
    """All other settings are equal, and every comment is still there."""
    changed = with_lease_namespace(text, "mine", "f.yaml")
    one, other = parse(text, "f.yaml"), parse(changed, "f.yaml")
    assert "mine" == other.leader_election.namespace
    assert settings(replace(one, leader_election=other.leader_election)) == settings(other)
    assert one.leader_election.name == other.leader_election.name
    assert [line for line in text.splitlines() if "#" in line and "theirs" not in line] == [
        line for line in changed.splitlines() if "#" in line and "theirs" not in line
    ]

"""Remedies for a refused request: they name the account, and the file only where it grants that account something."""

from __future__ import annotations

from pathlib import Path

import pytest

from trimtab.wire.forbidden import KUBE_SCHEDULER_FILE, grant_remedy, refused_account

ROOT = Path(__file__).resolve().parents[2]

SERVER = 'pods is forbidden: User "{}" cannot list resource "pods" in API group "" at the cluster scope'


def test_kube_schedulers_account_has_a_file_of_its_own() -> None:
    """For what its stock roles lack; for anything else somebody has changed those roles."""
    message = SERVER.format("system:kube-scheduler")
    assert "apply deploy/rbac-system-kube-scheduler.yaml" == grant_remedy(message, "rbac-metrics.yaml")
    assert grant_remedy(message, "rbac-volumes.yaml").startswith("grant it to system:kube-scheduler")
    rules = (ROOT / "deploy" / KUBE_SCHEDULER_FILE).read_text()
    assert all(resource in rules for resource in ("podgroups", "metrics.k8s.io", "name: system:kube-scheduler"))


@pytest.mark.parametrize(
    ("message", "account", "remedy"),
    [
        (
            SERVER.format("system:serviceaccount:trimtab:trimtab"),
            "system:serviceaccount:trimtab:trimtab",
            "apply deploy/x",
        ),
        (
            SERVER.format("system:kube-scheduler"),
            "system:kube-scheduler",
            "grant it to system:kube-scheduler, as deploy/x does for Trimtab's service account",
        ),
        (
            SERVER.format("system:serviceaccount:other:trimtab"),
            "system:serviceaccount:other:trimtab",
            "grant it to system:serviceaccount:other:trimtab, as deploy/x does for Trimtab's service account",
        ),
        ("", "", "apply deploy/x"),
        ('User "unfinished', "", "apply deploy/x"),
    ],
)
def test_the_remedy_is_for_the_account_that_was_refused(message: str, account: str, remedy: str) -> None:
    """Files in deploy/ bind roles to Trimtab's own service accounts, which helps no other."""
    assert (account, remedy) == (refused_account(message), grant_remedy(message, "x"))

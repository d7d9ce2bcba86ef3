"""Remedies for a refused request: they name the account, and the file only where it grants that account something."""

from __future__ import annotations

import pytest

from trimtab.wire.forbidden import grant_remedy, refused_account

SERVER = 'pods is forbidden: User "{}" cannot list resource "pods" in API group "" at the cluster scope'


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

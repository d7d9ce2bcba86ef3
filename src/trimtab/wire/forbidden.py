"""What a 403 of the API server means for an administrator: which account was refused, and how to grant it the permission."""

from __future__ import annotations

import re

SCHEDULER_ACCOUNT = "system:serviceaccount:trimtab:trimtab"
LABELLER_ACCOUNT = "system:serviceaccount:trimtab:trimtab-labeller"
RESCHEDULER_ACCOUNT = "system:serviceaccount:trimtab:trimtab-rescheduler"
OUR_ACCOUNTS = (SCHEDULER_ACCOUNT, LABELLER_ACCOUNT, RESCHEDULER_ACCOUNT)
KUBE_SCHEDULER, KUBE_SCHEDULER_FILE = "system:kube-scheduler", "rbac-system-kube-scheduler.yaml"
GRANTED_THERE_TOO = ("components/gang/rbac-gang.yaml", "rbac-metrics.yaml")  # files whose rules the other one has, too
_REFUSED = re.compile(r'[Uu]ser "([^"]+)" cannot')


def refused_account(message: str) -> str:
    """The account in the API server's message; empty if it names none."""
    found = _REFUSED.search(message)
    return found[1] if found is not None else ""


def grant_remedy(message: str, file: str, what: str = "it") -> str:
    """How to grant `what`, which a file in deploy/ grants to our own service account and to no other."""
    account = refused_account(message)
    if account == KUBE_SCHEDULER and file in GRANTED_THERE_TOO:
        return f"apply deploy/{KUBE_SCHEDULER_FILE}"
    if not account or account in OUR_ACCOUNTS:
        return f"apply deploy/{file}"
    return f"grant {what} to {account}, as deploy/{file} does for Trimtab's service account"

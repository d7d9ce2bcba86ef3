"""Decides how the API server wants times to be written; leaves which time is meant to the caller."""

from __future__ import annotations

from datetime import UTC, datetime


def rfc3339_micro(at: float) -> str:
    """As in a Lease or an Event (MicroTime)."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def rfc3339(at: float) -> str:
    """As in a condition (Time)."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

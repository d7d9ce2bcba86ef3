"""Differences of objects: what the server sets is left out, and secrets are masked."""

from __future__ import annotations

from trimtab.apps.deploy.object_diff import unified_diff


def test_what_the_server_sets_is_no_difference() -> None:
    """Versions, managers and status."""
    before = {"kind": "A", "metadata": {"name": "a", "resourceVersion": "1", "generation": 1}, "status": {"ready": 1}}
    after = {"kind": "A", "metadata": {"name": "a", "resourceVersion": "2", "managedFields": []}}
    assert [] == unified_diff(before, after, "A a")


def test_a_changed_line_of_a_long_text_is_one_line() -> None:
    """A configuration is shown line by line."""
    before, after = ({"kind": "ConfigMap", "metadata": {}, "data": {"c": f"one: 1\ntwo: {n}\n"}} for n in (2, 3))
    lines = unified_diff(before, after, "ConfigMap c")
    assert ["-    two: 2", "+    two: 3"] == [
        line for line in lines if line[0] in "+-" and not line.startswith(("---", "+++"))
    ]


def test_secrets_are_masked_and_their_changes_marked() -> None:
    """No value is printed, neither old nor new."""
    before = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"token": "b2xk", "same": "c2FtZQ=="}}
    after = {**before, "data": {"token": "bmV3", "same": "c2FtZQ=="}}
    text = "\n".join(unified_diff(before, after, "Secret s"))
    assert "-  token: '*** (masked), before'\n+  token: '*** (masked), after'" in text
    assert not [value for value in ("b2xk", "bmV3", "c2FtZQ==") if value in text]
    created = "\n".join(unified_diff(None, after, "Secret s"))
    assert "bmV3" not in created


def test_a_renewed_lease_is_no_difference() -> None:
    """Its holder renews it between two reads; its labels are ours."""
    before = {"kind": "Lease", "metadata": {"name": "a"}, "spec": {"renewTime": "2026-01-01T00:00:00Z"}}
    assert [] == unified_diff(before, {**before, "spec": {"renewTime": "2026-01-01T00:00:02Z"}}, "Lease a")
    assert [] != unified_diff(before, {**before, "metadata": {"name": "a", "labels": {"b": "c"}}}, "Lease a")

"""The health pages answer as Kubernetes' own do."""

import logging

import pytest

from trimtab.serve.health import Check, Health, flag_check, freshness_check


def broken(name: str = "watches-synced", reason: str = "pods are not listed") -> Check:
    """A check that fails."""
    return Check(name, lambda: reason)


def test_all_well_is_ok() -> None:
    """A page whose checks all pass says ok, and lists them if verbose."""
    health = Health(ready=(flag_check("watches-synced", lambda: True, "never said"),))
    assert (True, "ok") == health.page("readyz")
    assert (True, "[+]ping ok\n[+]watches-synced ok\nreadyz check passed\n") == health.page("readyz", verbose=True)


def test_a_failure_is_named_and_its_reason_withheld() -> None:
    """A failing page always names its checks and never says why."""
    text = "[+]ping ok\n[-]watches-synced failed: reason withheld\nreadyz check failed\n"
    assert (False, text) == Health(ready=(broken(),)).page("readyz")


def test_readiness_does_not_restart_anybody() -> None:
    """Without an API server no informer syncs, and /livez and /healthz still pass."""
    health = Health(ready=(broken(),))
    assert {"livez": True, "readyz": False, "healthz": True} == {page: health.page(page).ok for page in health.pages}


def test_a_stuck_loop_is_not_alive() -> None:
    """When the event loop has stalled, /livez and /healthz fail."""
    health = Health(live=(freshness_check("runtime", lambda: 31.0, 30.0),))
    assert {"livez": False, "readyz": True, "healthz": False} == {page: health.page(page).ok for page in health.pages}


@pytest.mark.parametrize(("age", "well"), [(0.0, True), (30.0, True), (30.1, False), (float("inf"), False)])
def test_recent_is_judged_by_age(age: float, well: bool) -> None:
    """It passes up to the limit."""
    assert well == (freshness_check("lease", lambda: age, 30.0).run() is None)


def test_a_check_that_raises_has_failed() -> None:
    """An exception in a check fails that check, and the page is still written."""
    health = Health(live=(Check("odd", lambda: str(1 // 0)),))
    assert (False, "[+]ping ok\n[-]odd failed: reason withheld\nlivez check failed\n") == health.page("livez")


def test_one_check_can_be_asked_alone() -> None:
    """A single check can be requested; an unknown one is not found."""
    health = Health(ready=(broken(),))
    assert (True, "ok") == health.single("readyz", "ping")
    assert (False, "internal server error: reason withheld\n") == health.single("readyz", "watches-synced")
    assert health.single("livez", "watches-synced") is None


def test_the_log_hears_of_changes_only(caplog: pytest.LogCaptureFixture) -> None:
    """A check that fails at every probe is logged once with its reason, and once when it passes again."""
    well = [False, False, True]
    health = Health(ready=(flag_check("watches-synced", lambda: well.pop(0), "pods are not listed"),))
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            health.page("readyz")
    expected = [
        "health check failed: check=watches-synced reason=pods are not listed",
        "health check passes again: check=watches-synced",
    ]
    assert expected == caplog.messages

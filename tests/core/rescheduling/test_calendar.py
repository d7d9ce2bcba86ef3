"""Calendar windows: when cron schedules begin, in any time zone, and which of them allow moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from trimtab.core.rescheduling.calendar import Window, parse_cron, window_refusal

HOUR = 3600.0


def at(text: str, zone: str = "UTC") -> float:
    return datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp()


def latest(cron: str, now: str) -> str:
    """The latest beginning within a year, as it is written."""
    found = parse_cron(cron).latest(at(now), UTC, at(now) - 366 * 24 * HOUR)
    return "" if found is None else datetime.fromtimestamp(found, UTC).strftime("%Y-%m-%d %H:%M")


@pytest.mark.parametrize(
    ("cron", "expected"),
    [
        ("* * * * *", "2026-03-18 10:30"),
        ("0 22 * * *", "2026-03-17 22:00"),
        ("*/20 9-17 * * mon-fri", "2026-03-18 10:20"),
        ("15,45 * * * *", "2026-03-18 10:15"),
        ("0 0 * * 7", "2026-03-15 00:00"),
        ("0 0 * * SUN,Tue", "2026-03-17 00:00"),
        ("0 0 * * 5-7", "2026-03-15 00:00"),
        ("0 3 31 * *", "2026-01-31 03:00"),
        ("0 3 13 * 2", "2026-03-17 03:00"),
        ("0 3 13 * *", "2026-03-13 03:00"),
        ("0 3 */2 * 2", "2026-03-17 03:00"),
        ("30/10 1 1 feb ?", "2026-02-01 01:50"),
        ("@monthly", "2026-03-01 00:00"),
    ],
)
def test_when_a_schedule_was_last_due(cron: str, expected: str) -> None:
    """At 10:30 on Wednesday 18 March 2026: lists, ranges, steps, names, macros, and either day field if both are set."""
    assert expected == latest(cron, "2026-03-18 10:30")


@pytest.mark.parametrize(
    ("cron", "error"),
    [
        ("* * * *", "schedule '* * * *' has 4 fields instead of 5"),
        ("60 * * * *", "minute '60': '60' is not within 0-59"),
        ("* * 0 * *", "day of month '0': '0' is not within 1-31"),
        ("* * * * 8", "day of week '8': '8' is not within 0-7"),
        ("* 9-5 * * *", "hour '9-5': 9-5 ends before it begins"),
        ("*/0 * * * *", "minute '*/0': '0' is no step"),
        ("*/ * * * *", "minute '*/': '' is no step"),
        ("* * * foo *", "month 'foo': 'foo' is not within 1-12"),
        ("1,, * * * *", "minute '1,,': '' is not within 0-59"),
        ("-1 * * * *", "minute '-1': '' is not within 0-59"),
        ("² * * * *", "minute '²': '²' is not within 0-59"),
        ("0 0 31 2,4 *", "schedule '0 0 31 2,4 *' never fires: none of its months has such a day"),
        ("", "schedule '' has 0 fields instead of 5"),
        ("@sometimes", "schedule '@sometimes' has 1 fields instead of 5"),
    ],
)
def test_what_is_wrong_with_a_schedule(cron: str, error: str) -> None:
    """The message names the field and its range."""
    with pytest.raises(ValueError) as found:
        Window(cron, HOUR)
    assert error == str(found.value)


@pytest.mark.parametrize("zone", ["Europe/Nowhere", "", "../etc/passwd", "/etc/passwd"])
def test_an_unknown_time_zone(zone: str) -> None:
    """It is an error of the window, before the window is used."""
    with pytest.raises(ValueError, match="unknown time zone"):
        Window("@daily", HOUR, zone)


@pytest.mark.parametrize("duration", [0.0, -1.0, 1e9, float("nan")])
def test_a_window_has_a_duration(duration: float) -> None:
    """Without one it would never be open, and with a very long one always."""
    with pytest.raises(ValueError, match="duration"):
        Window("@daily", duration)


def test_a_window_ends_after_its_duration() -> None:
    """It is open from its beginning until just before its end, over midnight, too."""
    window = Window("0 22 * * *", 4 * HOUR)
    opens = at("2026-03-18 22:00")
    assert [False, True, True, False] == [window.contains(opens + each) for each in (-1, 0, 4 * HOUR - 1, 4 * HOUR)]


def test_a_window_keeps_its_local_time() -> None:
    """22:00 in Berlin is 21:00 UTC in winter and 20:00 in summer."""
    window = Window("0 22 * * *", HOUR, "Europe/Berlin")
    assert window.contains(at("2026-01-10 21:30")) and not window.contains(at("2026-01-10 20:30"))
    assert window.contains(at("2026-07-10 20:30")) and not window.contains(at("2026-07-10 21:30"))


def test_a_window_in_the_hour_that_daylight_saving_skips() -> None:
    """On 29 March 2026 there is no 02:30 in Berlin: the window opens at 03:30, once."""
    window = Window("30 2 * * *", HOUR, "Europe/Berlin")
    assert window.contains(at("2026-03-29 03:45", "Europe/Berlin"))
    assert not window.contains(at("2026-03-29 03:15", "Europe/Berlin"))


def test_windows_agree_with_looking_at_every_minute() -> None:
    """For some schedules and a week of minutes, a window is open exactly if it began less than its duration ago."""
    begins = datetime(2026, 3, 1, tzinfo=UTC)
    for cron in ("*/45 3,4 * * *", "0 22 * * 1-3", "10 0 1 * 2"):
        window, schedule, start = Window(cron, 2 * HOUR), parse_cron(cron), None
        for minute in range(7 * 24 * 60):
            now = begins + timedelta(minutes=minute)
            if schedule.matches_day(now) and now.hour in schedule.hours and now.minute in schedule.minutes:
                start = now
            expected = start is not None and now - start < timedelta(hours=2)
            assert expected == window.contains(now.timestamp()), (cron, now)


@pytest.mark.parametrize(
    ("windows", "now", "expected"),
    [
        ((), "2026-03-18 12:00", ""),
        ((Window("0 22 * * *", HOUR),), "2026-03-18 22:30", ""),
        ((Window("0 22 * * *", HOUR),), "2026-03-18 12:00", "no window that allows moves is open"),
        (
            (Window("0 9 * * *", 8 * HOUR, allowed=False),),
            "2026-03-18 12:00",
            "the window '0 9 * * *' (UTC) forbids moves",
        ),
        ((Window("0 9 * * *", 8 * HOUR, allowed=False),), "2026-03-18 18:00", ""),
        (
            (Window("@daily", 24 * HOUR), Window("0 9 * * *", 8 * HOUR, allowed=False)),
            "2026-03-18 12:00",
            "the window '0 9 * * *' (UTC) forbids moves",
        ),
    ],
)
def test_which_windows_allow_moves(windows: tuple[Window, ...], now: str, expected: str) -> None:
    """Without windows any time is good; one that forbids moves wins; where some allow them, one of those must be open."""
    assert expected == window_refusal(windows, at(now))

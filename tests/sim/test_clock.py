"""The virtual clock: order, limits, and repetition without drift."""

from functools import partial

from trimtab.sim.clock import VirtualClock


def test_callbacks_run_by_time_then_in_the_order_scheduled() -> None:
    """In order of time; at the same time, in the order in which they were scheduled."""
    clock, done = VirtualClock(100.0), list[tuple[str, float]]()

    def note(name: str) -> None:
        done.append((name, clock.now))

    for name, seconds in (("late", 2.0), ("first", 1.0), ("second", 1.0)):
        clock.call_later(seconds, partial(note, name))
    clock.run_until(110.0)
    assert [("first", 101.0), ("second", 101.0), ("late", 102.0)] == done


def test_the_clock_stops_at_the_limit() -> None:
    """Callbacks after the limit do not run, and the clock advances to the limit."""
    clock, done = VirtualClock(), list[float]()
    clock.call_later(5.0, lambda: done.append(clock.now))
    assert not clock.step(4.0)
    assert (4.0, []) == (clock.now, done)
    assert clock.step(5.0)
    assert [5.0] == done


def test_the_clock_never_goes_back() -> None:
    """Not for a limit in the past, and a callback that is due in the past runs now."""
    clock, done = VirtualClock(10.0), list[float]()
    clock.step(3.0)
    clock.call_at(4.0, lambda: done.append(clock.now))
    clock.run_until(10.0)
    assert (10.0, [10.0]) == (clock.now, done)


def test_call_every_does_not_drift() -> None:
    """Every 0.1 s for a thousand times ends exactly at 100 s, although 0.1 is no binary fraction."""
    clock, done = VirtualClock(), list[float]()
    clock.call_every(0.1, lambda: done.append(clock.now))
    clock.run_until(100.0)
    assert (1000, 100.0) == (len(done), done[-1])
    assert [0.1, 0.2, 0.30000000000000004] == done[:3]


def test_a_callback_may_schedule_another_at_the_same_time() -> None:
    """It runs before the clock advances."""
    clock, done = VirtualClock(), list[str]()
    clock.call_at(1.0, lambda: clock.call_later(0.0, lambda: done.append("inner")))
    clock.call_at(1.5, lambda: done.append("later"))
    clock.run_until(2.0)
    assert ["inner", "later"] == done

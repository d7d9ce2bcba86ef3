"""The virtual clock: order, repetition, and standing still."""

from functools import partial

from trimtab.sim.clock import VirtualClock


def test_what_is_due_happens_by_time_then_by_the_order_asked() -> None:
    """Acts come in order of time; at the same time, in the order in which they were asked for."""
    clock, done = VirtualClock(100.0), list[tuple[str, float]]()

    def note(name: str) -> None:
        done.append((name, clock.now))

    for name, seconds in (("late", 2.0), ("first", 1.0), ("second", 1.0)):
        clock.call_later(seconds, partial(note, name))
    while clock.step(110.0):
        pass
    assert [("first", 101.0), ("second", 101.0), ("late", 102.0)] == done


def test_the_clock_stops_at_the_limit() -> None:
    """Nothing due after the limit happens, and then it is the limit."""
    clock, done = VirtualClock(), list[float]()
    clock.call_later(5.0, lambda: done.append(clock.now))
    assert not clock.step(4.0)
    assert (4.0, []) == (clock.now, done)
    assert clock.step(5.0)
    assert [5.0] == done


def test_a_limit_in_the_past_does_not_turn_the_clock_back() -> None:
    """Time only goes forward."""
    clock = VirtualClock(10.0)
    clock.step(3.0)
    assert 10.0 == clock.now


def test_every_repeats_without_drift() -> None:
    """What is asked for every 15 s comes at 15, 30 and 45 s."""
    clock, done = VirtualClock(), list[float]()
    clock.call_every(15.0, lambda: done.append(clock.now))
    while clock.step(50.0):
        pass
    assert [15.0, 30.0, 45.0] == done

"""Intervals, calibration, and what a burst gives away, on clocks and calls made by hand."""

import math
from fractions import Fraction

import pytest

from sandbox import measure
from sandbox.measure import Burst, Plan


class Clock:
    """A clock that only calls advance."""

    def __init__(self, tick=0.0):
        self.now, self.tick = 0.0, tick

    def __call__(self):
        self.now += self.tick
        return self.now

    def takes(self, seconds):
        def call():
            self.now += seconds

        return call


@pytest.fixture
def clock(monkeypatch):
    fake = Clock()
    monkeypatch.setattr(measure, "clock", fake)
    return fake


def same(new):
    pass


def covered(n, k):
    """P(the k-th smallest of n lies below the median, and the k-th largest above)."""
    return 1 - 2 * sum(Fraction(math.comb(n, i), 2**n) for i in range(k))


@pytest.mark.parametrize("n", [*range(1, 40), 100, 2000])
def test_the_interval_is_the_narrowest_that_covers(n):
    t = measure.timing(range(n))
    low, high = int(t.low_s) + 1, n - int(t.high_s)
    assert low == high
    assert t.rounds == n
    assert t.median_s == (n - 1) / 2
    if n < 6:
        assert low == 1
    else:
        assert covered(n, low) >= Fraction(95, 100) > covered(n, low + 1)


def test_the_interval_does_not_mind_the_order():
    assert measure.timing([3.0, 1.0, 2.0]) == measure.timing([1.0, 2.0, 3.0])


@pytest.mark.parametrize("seconds", [1e-9, 3e-7, 1e-5, 2e-5, 1e-3, 0.05, 0.2, 7.0])
def test_a_visit_is_calibrated(clock, seconds):
    p = measure.plan(clock.takes(seconds), same, cold=False)
    assert 1 <= p.samples <= 500
    assert p.repeats * seconds >= 0.99 * measure._SAMPLE_S
    assert p.samples * p.repeats * seconds <= max(1.01 * measure.BURST_S, seconds)
    assert (p.warm_s == 0) == (seconds > measure._LONG_S)


def test_cold_calls_are_timed_one_by_one(clock):
    assert measure.plan(clock.takes(1e-7), same, cold=True).repeats == 1


def test_a_call_too_short_for_the_clock_is_calibrated_all_the_same(clock):
    p = measure.plan(lambda: None, same, cold=False)
    assert 1 <= p.samples <= 500


def test_a_slow_first_call_does_not_mislead(clock):
    times = iter([0.05])
    p = measure.plan(lambda: clock.takes(next(times, 1e-6))(), same, cold=False)
    assert p.repeats == 20


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("plan", [Plan(1, 1, 0.0), Plan(7, 1, 0.0), Plan(7, 20, 0.0)])
def test_between_two_changes_there_is_a_call(clock, plan, again):
    events = []
    measure.burst(lambda: events.append("call"), lambda new: events.append(new), None, plan, again)
    changes = [i for i, e in enumerate(events) if e != "call"]
    assert all(events[i + 1] == "call" for i in changes)
    assert events.count(False) == (min(plan.samples, 5) if again else 0)
    assert events.count("call") >= plan.samples * plan.repeats


def test_neither_changes_nor_flushes_are_timed(clock):
    b = measure.burst(
        clock.takes(1e-3), lambda new: clock.takes(1.0)(), clock.takes(2.0), Plan(3, 2, 0.0), True
    )
    assert b.call_s == pytest.approx(1e-3)
    assert b.fresh_s == pytest.approx(1e-3)
    assert b.again_s == pytest.approx(1e-3)
    assert b.total_s > 9


def test_a_warm_visit_begins_with_calls_that_are_forgotten(clock):
    times = iter([0.005] * 3)
    call = lambda: clock.takes(next(times, 1e-3))()  # noqa: E731
    assert measure.burst(call, same, None, Plan(3, 1, 0.01), False).call_s == pytest.approx(1e-3)


def remembering(clock, fresh, again):
    """A call that is fast on numbers that it has met, and what changes them."""
    known = [False]

    def call():
        clock.takes(again if known[0] else fresh)()
        known[0] = True

    def change(new):
        known[0] = known[0] and not new

    return call, change


def test_what_remembers_is_found_and_gains_nothing(clock):
    call, change = remembering(clock, 1e-3, 1e-5)
    plan = measure.plan(call, change, cold=False)
    bursts = [measure.burst(call, change, None, plan, i < 3) for i in range(6)]
    assert bursts[0].call_s == pytest.approx(1e-3)
    assert measure.remembers(bursts)


def burst(fresh=1e-3, again=1e-3, total=0.03):
    return Burst(fresh, fresh, again, total)


@pytest.mark.parametrize(
    ("bursts", "expected"),
    [
        ([burst()] * 6, False),
        ([burst(3e-3, 1e-3)] * 6, True),
        ([burst(3e-3, None)] * 3 + [burst(3e-3, 1e-3)] * 3, True),
        ([burst(3e-3, None)] * 6, False),  # never tried
        ([burst(3e-6, 1e-6)] * 6, False),  # within the noise
        ([burst(1.5e-3, 1e-3)] * 6, False),
        ([burst(9e-3, 1e-3)] + [burst()] * 2, False),  # one interrupted call
        ([burst(8e-3, 2e-5)] + [burst(8e-3, 8e-3)] * 2, False),  # a pool of threads that waits
    ],
)
def test_memory_shows_in_the_second_call(bursts, expected):
    assert measure.remembers(bursts) == expected


def test_one_noisy_burst_alone_convicts_nobody(clock):
    """Of the five pairs of one burst a single undisturbed one is enough."""
    times = iter([1e-3, 5e-3, 1e-3] + [5e-3, 1e-3] * 4)  # fresh calls are interrupted, but for one
    call = lambda: clock.takes(next(times))()  # noqa: E731
    assert not measure.remembers([measure.burst(call, same, None, Plan(5, 1, 0.0), False)])
    times = iter([5e-3, 5e-3, 1e-3, 5e-3, 5e-3] + [5e-3, 1e-3] * 5)
    assert not measure.remembers([measure.burst(call, same, None, Plan(5, 1, 0.0), True)])


@pytest.mark.parametrize(
    ("walls", "totals", "expected"),
    [
        ([0.031] * 6, [0.03] * 6, False),
        ([0.3] * 6, [0.03] * 6, True),  # the worker's clock runs slow
        ([0.03] * 6, [0.3] * 6, True),  # or fast
        ([0.3] * 5 + [0.031], [0.03] * 6, False),  # a busy machine answers late, not always
        ([0.031] * 5 + [0.01], [0.03] * 6, True),  # nothing lasts longer inside than outside
        ([10.0], [9.2], False),
    ],
)
def test_two_clocks_tell_one_story(walls, totals, expected):
    assert measure.clocks_disagree(walls, [burst(total=t) for t in totals]) == expected

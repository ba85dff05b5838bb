"""Known fixed costs are found again in noisy sweeps; what a sweep does not tell stays open."""

from __future__ import annotations

from math import cbrt, inf

import numpy as np
import pytest

from sandbox.fixed_cost import FixedCost, fit
from sandbox.roofline import Gemm, compulsory_bytes, n_for_efficiency, time_s, work

SIZES = sorted({round(n) for n in np.geomspace(32, 4096, 29)})
PEAKS = (50e9, 5e12, 500e12)
COSTS = (0.2e-6, 2e-6, 20e-6, 200e-6)
INNER = [(t0, p) for t0 in COSTS for p in PEAKS if 60 < cbrt(t0 * p / 2) < 2000]


def squares(sizes: list[int]) -> list[Gemm]:
    return [Gemm(n, n, n) for n in sizes]


def noisy(
    gemms: list[Gemm], t0_s: float, peak: float, bandwidth: float = inf, seed: int = 0
) -> list[float]:
    factors = np.exp(0.03 * np.random.default_rng(seed).standard_normal(len(gemms)))
    exact = [time_s(g, t0_s, peak, compulsory_bytes(g), bandwidth) for g in gemms]
    return [float(t * f) for t, f in zip(exact, factors, strict=True)]


def fitted(t0_s: float, peak: float, seed: int, bandwidth: float = inf) -> FixedCost:
    gemms = squares(SIZES)
    return fit(gemms, noisy(gemms, t0_s, peak, bandwidth, seed))


@pytest.mark.parametrize(("t0_s", "peak"), INNER)
def test_within_five_percent_where_sizes_are_on_both_sides(t0_s: float, peak: float) -> None:
    found = [fitted(t0_s, peak, seed) for seed in range(8)]
    peaks = [f.peak_flops.value for f in found if f.peak_flops]
    assert np.median([abs(f.t0_s.value / t0_s - 1) for f in found]) < 0.05
    assert sum(abs(f.t0_s.value / t0_s - 1) < 0.05 for f in found) >= 7
    assert sum(abs(p / peak - 1) < 0.05 for p in peaks) >= 7


@pytest.mark.parametrize(
    ("t0_s", "peak", "bandwidth"),
    [
        (0.2e-6, 50e9, inf),  # T0 is an eighth of the shortest time
        (2e-6, 5e12, inf),
        (200e-6, 500e12, inf),  # even the largest size is half T0
        (0.2e-6, 5e12, 500e9),  # a bandwidth that hides behind T0
        (0.2e-6, 500e12, 4e12),
    ],
)
def test_intervals_cover_the_truth(t0_s: float, peak: float, bandwidth: float) -> None:
    found = [fitted(t0_s, peak, seed, bandwidth) for seed in range(30)]
    assert sum(f.t0_s.low <= t0_s <= f.t0_s.high for f in found) >= 27
    peaks = [f.peak_flops for f in found if f.peak_flops]
    assert sum(p.low <= peak <= p.high for p in peaks) >= 27


def test_bandwidth_is_found_where_it_binds_and_nowhere_else() -> None:
    found = fitted(0.2e-6, 500e12, 1, bandwidth=4e12)
    assert found.bandwidth
    assert found.bandwidth.low < 4e12 < found.bandwidth.high
    assert found.bandwidth.value == pytest.approx(4e12, rel=0.1)
    assert fitted(2e-6, 5e12, 1).bandwidth is None


def test_only_traffic_gives_no_peak() -> None:
    gemms = squares([8, 16, 32, 64, 128, 256, 512])
    found = fit(gemms, [1e-6 + compulsory_bytes(g) / 1e9 for g in gemms])
    assert found.peak_flops is None
    assert found.bandwidth
    assert found.bandwidth.value == pytest.approx(1e9, rel=1e-3)
    with pytest.raises(ValueError, match="no size in the sweep is compute-bound"):
        found.n_for(0.8)


def test_given_bytes_take_the_place_of_compulsory_ones() -> None:
    gemms = squares([8, 16, 32, 64, 128, 256, 512])
    moved = [3.0 * compulsory_bytes(g) for g in gemms]
    found = fit(gemms, [1e-6 + q / 1e9 for q in moved], moved)
    assert found.bandwidth
    assert found.bandwidth.value == pytest.approx(1e9, rel=1e-3)


def test_exact_times_give_exact_parameters_and_n_for() -> None:
    gemms = squares(SIZES)
    found = fit(gemms, [13e-6 + work(g) / 67e12 for g in gemms])
    assert found.t0_s.value == pytest.approx(13e-6, rel=1e-4)
    assert found.n_for(0.8) == pytest.approx(n_for_efficiency(0.8, 13e-6, 67e12), rel=1e-4)


def test_no_fixed_cost_is_zero_within_its_interval() -> None:
    found = fitted(0.0, 5e12, 0)
    assert found.t0_s.low == 0 <= found.t0_s.value <= found.t0_s.high < 1e-8


def test_outliers_have_little_weight() -> None:
    gemms = squares(SIZES)
    times = noisy(gemms, 20e-6, 5e12)
    times[3], times[20] = 4 * times[3], 3 * times[20]
    found = fit(gemms, times)
    assert found.t0_s.value == pytest.approx(20e-6, rel=0.05)
    assert found.peak_flops
    assert found.peak_flops.value == pytest.approx(5e12, rel=0.05)


def test_upper_limit_of_the_peak_holds() -> None:
    gemms = squares(SIZES)
    found = fit(gemms, noisy(gemms, 20e-6, 5e12), most_flops=4.8e12)
    assert found.peak_flops
    assert found.peak_flops.low < found.peak_flops.value <= found.peak_flops.high
    assert found.peak_flops.high == pytest.approx(4.8e12)


def test_sweeps_of_one_side_leave_the_other_open() -> None:
    large, small = squares([1024, 1448, 2048, 2896, 4096, 5793]), squares([8, 11, 16, 23, 32, 45])
    t0 = fit(large, noisy(large, 2e-6, 50e9)).t0_s
    assert t0.low == 0
    assert t0.high > 20e-6
    peak = fit(small, noisy(small, 20e-6, 500e12)).peak_flops
    assert peak is None or peak.high == inf


@pytest.mark.parametrize(
    ("sizes", "seconds", "message"),
    [
        ([32, 64, 128, 256], [1.0] * 4, "needs 5 different sizes, not 4"),
        ([64] * 8, [1.0] * 8, "not 1"),
        ([32, 64, 128, 256, 512], [1.0, 1.0, 0.0, 1.0, 1.0], "positive"),
        ([32, 64, 128, 256, 512], [1.0] * 4, "5 sizes, 4 times"),
    ],
)
def test_degenerate_sweeps_are_refused(
    sizes: list[int], seconds: list[float], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        fit(squares(sizes), seconds)

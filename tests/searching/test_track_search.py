"""Search with power along tracks: its values, probabilities in noise, tables, and what it refuses."""

import jax
import numpy as np
import pytest
from astropy.table import QTable
from cases import random_timestamps
from scipy import stats

import jfstat
from jfstat.maths.exponentials import exponentials_tail
from jfstat.searching.statistics.trackpower import _columns, _reach
from jfstat.statistic.trackband import Blocks, critical_ratios
from jfstat.statistic.trackpower import sky_position, track

START, DAY, NOISE = 1167458304, 86400, 4e-24


def made(rng, f, signals=(), days=1.5, sqrt_sx=NOISE, detectors=("H1", "L1"), half=0.25):
    times = random_timestamps(rng, detectors, START, days, 0.7)
    return jfstat.simulate_sfts(
        list(detectors), timestamps=times, fmin=f - half, fmax=f + half, sqrt_sx=sqrt_sx, signals=signals, seed=4
    )


def random_bank(rng, n, f, asini=1.0, period=0.6 * DAY):
    """Binaries over the whole sky."""
    orbit = jfstat.Orbit(
        *(rng.uniform(0.5, 1, n) * asini, rng.uniform(0.9, 1.1, n) * period, START + rng.uniform(0, period, n)),
        *(rng.uniform(0, 0.3, n), rng.uniform(0, 6, n)),
    )
    fkdot = np.stack([np.full(n, f), rng.uniform(-1e-9, 0, n)], axis=1)
    return jfstat.Doppler(rng.uniform(0, 6.28, n), np.arcsin(rng.uniform(-1, 1, n)), fkdot, START, orbit)


def at_all_frequencies(data, point):
    n = data.layout.n_frequencies
    many = jax.tree.map(lambda x: np.broadcast_to(x, (n, *np.shape(x))).copy(), point)
    many.fkdot[:, 0] = data.frequencies
    return many


@pytest.mark.parametrize(
    ("bins", "per_bin", "period"),
    [(1, 1, 0.6 * DAY), pytest.param(1, 3, 7200.0, marks=pytest.mark.ci), pytest.param(4, 2, 0.6 * DAY)],
)
def test_values_are_those_of_track_power_at_every_frequency(bins, per_bin, period):
    rng = np.random.default_rng(bins + per_bin)
    signal = random_bank(rng, 1, 80.003, period=period)[0], jfstat.Amplitude(3e-24, 0.5)
    sfts = made(rng, 80.0, [signal])
    data = jfstat.normalise(sfts, 79.98, 80.02, bins=bins, dfreq=1 / (1800 * per_bin))
    bank = random_bank(rng, 3, 1.0, period=period)
    speed = float(np.max(2 * np.pi * bank.orbit.asini / bank.orbit.period / (1 - bank.orbit.ecc))) + 2e-4
    n = -(-data.layout.n_frequencies // per_bin)
    for point in [bank[i] for i in range(3)]:
        expected = np.asarray(jfstat.track_power(data, at_all_frequencies(data, point)).critical_ratio)
        for blocks in (Blocks.of(data.layout, speed, 1000), Blocks(-(-n // 8), 8), Blocks(5, -(-n // 5))):
            found = critical_ratios(data, point, blocks, 5)
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=2e-5)


def test_blocks_hold_tracks_that_differ_by_less_than_a_bin():
    data = jfstat.normalise(made(np.random.default_rng(1), 80.0, detectors=("H1",)), 79.9, 80.1)
    n = data.layout.n_frequencies
    for speed in (1.03e-4, 1e-3, 0.02, 0.3):
        blocks = Blocks.of(data.layout, speed, 1000)
        assert (blocks.size - 1) * speed <= 1
        assert blocks.size * blocks.number >= n
    assert Blocks.of(data.layout, 1e-3, 1000).number == 1
    assert Blocks.of(data.layout, 1e-3, 100).size <= 100


def test_a_search_finds_the_loudest_of_all_templates_and_frequencies():
    rng = np.random.default_rng(5)
    bank = random_bank(rng, 12, 1.0)
    signal = jfstat.Doppler(
        *(bank.alpha[7], bank.delta[7], [80.00777, float(bank.fkdot[7, 1])], START),
        jax.tree.map(lambda x: x[7], bank.orbit),
    )
    sfts = made(rng, 80.0, [(signal, jfstat.Amplitude(2.5e-24, 0.7))])
    data = jfstat.normalise(sfts, 80.0, 80.02)
    found = jfstat.search(data, bank, top=20, progress=False)
    assert found["template"][0] == 7
    assert abs(found["freq"].value[0] - 80.00777) <= 0.6 / 1800
    values = np.stack([jfstat.track_power(data, at_all_frequencies(data, bank[i])).critical_ratio for i in range(12)])
    np.testing.assert_allclose(found["critical_ratio"], np.sort(values.ravel())[::-1][:20], rtol=1e-5)
    same = jfstat.track_power(data, found)
    np.testing.assert_allclose(found["power"], same.power, rtol=1e-12)
    np.testing.assert_allclose(found["deviation"], same.deviation, rtol=1e-12)
    meta = found.meta
    assert meta["statistic"] == "TrackPower"
    assert meta["n_twoF"] == sum(meta["twoF_histogram"]) == 12 * data.layout.n_frequencies
    edges = np.append(meta["twoF_edges"][1:], np.inf)
    counted = np.histogram(values, np.append(-np.inf, edges))[0]
    np.testing.assert_array_equal(meta["twoF_histogram"], counted)
    tops = meta["loudest_per_subband"]
    assert max(tops["twoF"]) == pytest.approx(float(found["critical_ratio"][0]), rel=1e-5)
    assert meta["fmin"] == 80.0 and tops["start"][0] == 80.0
    assert tops["stop"][-1] == pytest.approx(data.frequencies[-1] + 1 / 1800)
    above = jfstat.search(data, bank, top=None, threshold=3.0, progress=False)
    assert len(above) == np.sum(values >= 3.0)
    text = jfstat.summary(found)
    assert "critical_ratio" in text and "false-alarm probability of the largest critical ratio" in text
    weaker = jfstat.search(data, bank, threshold=1e4, progress=False)
    assert jfstat.summary(weaker) == "no candidate with critical ratio >= 10000"


def test_each_detector_alone():
    rng = np.random.default_rng(6)
    sfts = made(rng, 80.0, sqrt_sx=[4e-24, 8e-24])
    bank = random_bank(rng, 3, 80.0)
    found = jfstat.search(jfstat.normalise(sfts, 79.99, 80.01), bank, top=4, progress=False)
    for series in sfts:
        alone = jfstat.SFTs((series,), sfts.tsft, sfts.first_bin)
        expected = jfstat.track_power(jfstat.normalise(alone), found).critical_ratio
        np.testing.assert_allclose(found[f"critical_ratio_{series.detector}"], expected, rtol=1e-6, atol=1e-9)
    fewer = jfstat.search(
        jfstat.normalise(sfts, 79.99, 80.01), bank, top=4, progress=False, details=jfstat.Details(per_detector=False)
    )
    assert [x for x in found.colnames if x not in fewer.colnames] == ["critical_ratio_H1", "critical_ratio_L1"]


def test_probabilities_in_noise():
    rng = np.random.default_rng(7)
    weight = rng.uniform(0, 1, 200) ** 2
    # equal weights: Erlang's distribution; two weights: by hand
    for total in (120.0, 199.9, 200.0, 200.1, 260.0, 400.0):
        exact = stats.gamma.sf(total, 200)
        assert float(exponentials_tail(np.ones(200), np.float64(total))) == pytest.approx(exact, rel=2e-3)
    draws = rng.exponential(size=(40000, 200)) @ weight
    for part in (0.5, 0.1, 0.01, 0.002):
        total = np.quantile(draws, 1 - part)
        tail = float(exponentials_tail(weight, total))
        assert tail == pytest.approx(part, abs=4 * np.sqrt(part / len(draws)))
    # the loudest of a search in noise: its probability is that of uniform numbers
    alarms = []
    for seed in range(12):
        sfts = jfstat.simulate_sfts(["H1"], START, 2 * DAY, 50.0, 51.0, sqrt_sx=NOISE, seed=seed)
        data = jfstat.normalise(sfts, 50.1, 50.9, sqrt_sx=NOISE)
        point = jfstat.Doppler(1.0, 0.2, [50.5], START)  # neighbouring frequencies are independent
        found = jfstat.search(data, point, top=1, progress=False)
        alarms.append(found.meta["false_alarm"])
        assert found["false_alarm"][0] < 0.01
    assert stats.kstest(alarms, "uniform").pvalue > 0.01


def test_units_checkpoints_and_batches_give_the_same_table(tmp_path):
    rng = np.random.default_rng(8)
    data = jfstat.normalise(made(rng, 80.0), 79.99, 80.01)
    bank = random_bank(rng, 21, 80.0)
    whole = jfstat.search(data, bank, top=9, progress=False, run=jfstat.Run(batch_size=4))
    parts = [
        jfstat.search(data, bank, top=9, progress=False, run=jfstat.Run(batch_size=4, unit=(i, 3))) for i in (1, 2, 3)
    ]
    merged = jfstat.merge(parts)
    path = tmp_path / "search.ckpt"
    for _ in range(2):
        again = jfstat.search(data, bank, top=9, checkpoint=path, progress=False, run=jfstat.Run(batch_size=4))
    for other in (merged, again):
        for name in whole.colnames:
            np.testing.assert_array_equal(whole[name], other[name])
        assert other.meta["twoF_histogram"] == whole.meta["twoF_histogram"]
        assert other.meta["false_alarm"] == whole.meta["false_alarm"]
    with pytest.raises(ValueError, match="the data's samples"):
        jfstat.search(
            jfstat.normalise(
                made(np.random.default_rng(8), 80.0, [(bank[0], jfstat.Amplitude(1e-23, 0.5))]), 79.99, 80.01
            ),
            *(bank, None, 9, None, path, False),
            run=jfstat.Run(batch_size=4),
        )


@pytest.mark.ci
def test_lines_are_flagged_and_vetoed():
    rng = np.random.default_rng(9)
    data = jfstat.normalise(made(rng, 80.0), 79.95, 80.05)
    lines = QTable({"detector": ["H1"], "fmin": [79.999], "fmax": [80.001], "name": ["test line"]})
    bank = random_bank(rng, 4, 80.0)
    plain = jfstat.search(data, bank, top=2000, progress=False, keep=jfstat.Keep(lines=lines))
    vetoed = jfstat.search(data, bank, top=2000, progress=False, keep=jfstat.Keep(lines=lines, veto_lines=True))
    crossing = np.asarray(plain["line"]) != ""
    assert 10 < np.sum(crossing) < len(plain) - 10
    assert len(vetoed) == vetoed.meta["n_twoF"] == np.sum(~crossing)


def test_a_line_between_two_frequencies_is_vetoed():
    sfts = jfstat.simulate_sfts(["H1"], START, DAY, 79.8, 80.2, sqrt_sx=NOISE, seed=2)
    data = jfstat.normalise(sfts, 79.99, 80.01)
    point = jfstat.Doppler(4.7, 1.15, [80.0], START)
    seen = np.asarray(track(data, sky_position(data, point), point, 1)[0])[0, :48]
    # 0.3 bins beside all of the track's frequencies, as far as one band can be
    beside = float(seen.max()) + 0.3 / 1800
    lines = QTable({"detector": ["H1"], "fmin": [beside], "fmax": [beside], "name": ["between"]})
    keep = jfstat.Keep(lines=lines, veto_lines=True)
    found = jfstat.search(data, point, top=100, progress=False, keep=keep)
    whole = jfstat.search(data, point, top=100, progress=False)
    assert not np.any(np.isclose(found["freq"].value, 80.0, rtol=0, atol=1e-5))
    assert 0 < len(whole) - len(found) < 5


def test_the_number_of_bins_is_part_of_a_search(tmp_path):
    sfts = jfstat.simulate_sfts(["H1"], START, DAY / 2, 79.8, 80.2, sqrt_sx=NOISE, seed=2)
    two, four = (jfstat.normalise(sfts, 79.99, 80.01, bins=bins) for bins in (2, 4))
    point, path = jfstat.Doppler(1.0, 0.2, [80.0], START), tmp_path / "search.ckpt"
    jfstat.search(two, point, top=3, checkpoint=path, progress=False)
    with pytest.raises(ValueError, match=r"bins \(2 there, 4 here\)"):
        jfstat.search(four, point, top=3, checkpoint=path, progress=False)


def test_tracks_that_leave_the_band_between_start_middle_and_end_are_refused():
    sfts = jfstat.simulate_sfts(["H1"], START, DAY, 19.9, 20.1, sqrt_sx=NOISE, seed=2)
    low = jfstat.normalise(sfts, sqrt_sx=NOISE).frequencies[0]
    data = jfstat.normalise(sfts, low, low + 0.01, sqrt_sx=NOISE)
    # a drift that vanishes at the start and in the middle, and is 6 mHz below at a quarter
    f2dot = 6e-3 * 32 / DAY**2
    point = jfstat.Doppler(1.0, 0.2, [20.0, -f2dot * DAY / 4, f2dot], START)
    with pytest.raises(ValueError, match="bank has 1 of 1 templates whose tracks may leave"):
        jfstat.search(data, point, progress=False)
    # if it were not refused, no value would count
    assert np.all(np.asarray(critical_ratios(data, point, Blocks.of(data.layout, 1e-3, 1000), 1)) == -np.inf)


def test_narrow_sfts_serve_single_templates():
    sfts = jfstat.simulate_sfts(["H1"], START, DAY, 1499.9, 1500.1, sqrt_sx=NOISE, seed=2)
    point = jfstat.Doppler(1.0, 0.2, [1500.12], START)
    data = jfstat.normalise(sfts)
    assert float(jfstat.track_power(sfts, point).power) == float(jfstat.track_power(data, point).power)
    assert "none for a search" in repr(data) and len(data.frequencies) == 0
    with pytest.raises(ValueError, match="data have no band to search"):
        jfstat.search(data, point)
    with pytest.raises(ValueError, match="data have no band"):
        jfstat.template_bank((1.0, 1.1), (0.2, 0.3), data=data, mismatch=0.3)
    with pytest.raises(ValueError, match="give SFTs of a wider band"):
        jfstat.normalise(sfts, 1500.0, 1500.001)


def test_normalised_sfts_are_exported():
    sfts = jfstat.simulate_sfts(["H1"], START, DAY / 4, 79.8, 80.2, sqrt_sx=NOISE, seed=2)
    data, point = jfstat.normalise(sfts, 79.99, 80.0), jfstat.Doppler(1.0, 0.2, [80.0], START)
    blocks = Blocks.of(data.layout, 1e-3, 1000)
    function = jax.jit(lambda data, point: critical_ratios(data, point, blocks, 1))
    jfstat.enable_export()
    again = jax.export.deserialize(jax.export.export(function)(data, point).serialize())
    np.testing.assert_array_equal(again.call(data, point), function(data, point))


def test_plans_say_what_a_search_costs():
    rng = np.random.default_rng(10)
    data = jfstat.normalise(made(rng, 80.0), 79.95, 80.05)
    plan = jfstat.plan_search(data, random_bank(rng, 40, 80.0), threshold=4.0)
    assert plan.n_values == 40 * data.layout.n_frequencies
    assert plan.engine == "xla" and plan.n_parts == 1 and plan.batch_size == 64
    assert plan.device_bytes > data.values.nbytes
    assert 0 < plan.seconds() < 60
    assert "TrackPower: 40 templates" in repr(plan)
    assert "frequencies 0.0005556 Hz apart" in repr(data)


def test_bounds_of_tracks_hold():
    rng = np.random.default_rng(11)
    data = jfstat.normalise(made(rng, 80.0), 79.95, 80.05)
    bank = random_bank(rng, 20, 80.0)
    low, high = map(np.asarray, _reach(data, jax.tree.map(np.asarray, bank)))
    for i in range(20):
        for f, bound in ((79.95, low), (data.frequencies[-1], high)):
            point = at_all_frequencies(data, bank[i])[0]
            point = jax.tree.map(np.asarray, point)
            point.fkdot[0] = f
            own = np.asarray(track(data, sky_position(data, point), point, 5)[0])
            assert (own.min() if bound is low else own.max()) == pytest.approx(bound[i], abs=0.02)
            assert own.min() >= low[i] and own.max() <= high[i]


def test_mistakes_are_said():
    rng = np.random.default_rng(12)
    sfts = made(rng, 80.0)
    data, bank = jfstat.normalise(sfts, 79.9, 80.1), random_bank(rng, 3, 80.0)
    prepared = jfstat.prepare(sfts, 79.99, 80.01, sqrt_sx=NOISE, guard=0.1)
    with pytest.raises(TypeError, match=r"statistic TwoF needs FstatData and data are NormalisedSFTs: jfstat\.prepare"):
        jfstat.search(data, bank, jfstat.TwoF())
    with pytest.raises(TypeError, match=r"statistic TrackPower needs NormalisedSFTs and data are FstatData"):
        jfstat.search(prepared, bank, jfstat.TrackPower())
    options = {
        "cluster does not go with TrackPower": dict(keep=jfstat.Keep(cluster=1.0)),
        "bsgl_threshold does not go with TrackPower": dict(keep=jfstat.Keep(bsgl_threshold=1.0)),
        "ranking 'BSGL' does not go with TrackPower": dict(keep=jfstat.Keep(ranking="BSGL")),
        "amplitudes does not go with TrackPower": dict(details=jfstat.Details(amplitudes=True)),
        "line_prior does not go with TrackPower": dict(details=jfstat.Details(line_prior=jfstat.LinePrior(1.0))),
        "engine 'cuda' cannot add up power along tracks": dict(run=jfstat.Run(engine="cuda")),
    }
    for message, option in options.items():
        with pytest.raises(ValueError, match=message):
            jfstat.search(data, bank, **option)
    far = random_bank(rng, 5, 80.0, asini=30.0)
    with pytest.raises(
        ValueError, match=r"bank has 5 of 5 templates whose tracks may leave the SFTs' band, .*number 0"
    ):
        jfstat.search(data, far)
    assert len(_columns(data, jax.tree.map(lambda x: np.asarray(x)[:0], bank))["false_alarm"]) == 0

"""What one signal explains: leakage against the exact mismatch, and clusters of signals and lines."""

import jax
import numpy as np
import pytest
from searches import search

import jfstat
from jfstat.candidates.clusters import clustered, explained
from jfstat.candidates.leakage import Sampling, leaked
from jfstat.candidates.tables import points_from
from jfstat.metrics.phasemetric import flat_metric
from jfstat.signal.values import columns as parameter_values

START = 1_167_458_304
DAY = 86400
SIGNAL = jfstat.Doppler(1.1, 0.35, [100.031, -3e-10], START)
OTHER = jfstat.Doppler(4.0, -0.6, [100.062, -1e-10], START)
AMPLITUDE = jfstat.Amplitude(3.2e-25, 0.3, 0.2, 1.0)


@pytest.fixture(scope="module")
def observed():
    return jfstat.observation(["H1", "L1"], START, 2 * DAY, sqrt_sx=4e-24, reftime=START)


def around(signal, n, seed, days=2, orbit=None):
    """Templates from close to a signal to far down its side lobes."""
    rng = np.random.default_rng(seed)
    far = 10 ** rng.uniform(-1, 1.5, n)
    f = float(signal.fkdot[0]) + far * rng.normal(size=n) / (days * DAY)
    f1 = float(signal.fkdot[1]) + far * rng.normal(size=n) / (days * DAY) ** 2
    alpha, delta = (float(x) + 0.004 * far * rng.normal(size=n) for x in (signal.alpha, signal.delta))
    return jfstat.Doppler(alpha, np.clip(delta, -1.5, 1.5), np.stack([f, f1], axis=1), START, orbit)


@pytest.mark.ci
@pytest.mark.parametrize("orbit", [None, (1.4, 68000.0)])
@pytest.mark.parametrize("amplitude", [None, AMPLITUDE])
def test_leakage_is_one_minus_the_mismatch(observed, orbit, amplitude):
    orbits = None
    signal = SIGNAL
    if orbit is not None:
        rng = np.random.default_rng(3)
        orbits = jfstat.Orbit(orbit[0] * (1 + 0.01 * rng.normal(size=100)), np.full(100, orbit[1]), np.full(100, START))
        signal = jfstat.Doppler(1.1, 0.35, [100.031, -3e-10], START, jfstat.Orbit(*orbit, START))
    points = jax.tree.map(np.asarray, around(signal, 100, 1, orbit=orbits))
    stack = jax.tree.map(lambda x: np.asarray(x)[None], signal)
    shown = leaked(Sampling.of(observed), START, stack, points, amplitude)
    assert shown.shape == (1, 100)
    exact = [
        1 - float(jfstat.mismatch(observed, signal, jax.tree.map(lambda x, i=i: x[i], points), amplitude=amplitude))
        for i in range(100)
    ]
    assert np.max(exact) > 0.25 and np.min(exact) < 0.05
    # one time in each SFT instead of six, and no relativistic delays
    assert np.median(abs(shown[0] - exact)) < 0.002
    np.testing.assert_allclose(shown[0], exact, atol=0.01 if orbit is None else 0.07)


@pytest.mark.slow
def test_of_many_sfts_a_part_is_enough():
    observed = jfstat.observation(["H1", "L1"], START, 60 * DAY, sqrt_sx=4e-24, reftime=START)
    sampling = Sampling.of(observed)
    assert sampling.time.shape == (2, 2000)
    points = jax.tree.map(np.asarray, around(SIGNAL, 50, 2, days=60))
    stack = jax.tree.map(lambda x: np.asarray(x)[None], SIGNAL)
    shown = leaked(sampling, START, stack, points)[0]
    exact = [1 - float(jfstat.mismatch(observed, SIGNAL, jax.tree.map(lambda x, i=i: x[i], points))) for i in range(50)]
    np.testing.assert_allclose(shown, exact, atol=0.03)
    again = Sampling.from_plain(sampling.plain)
    for one, other in zip(jax.tree.leaves(sampling), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(one, other)


def expected_candidates(observed, signals, seed=0, orbit=None):
    """2F that signals leave at templates around them, with noise; loudest first, those above 25."""
    rng = np.random.default_rng(seed)
    sampling, found = Sampling.of(observed), []
    for number, (signal, rho2) in enumerate(signals):
        points = jax.tree.map(np.asarray, around(signal, 1500, number + seed, orbit=orbit))
        left = rho2 * leaked(sampling, START, jax.tree.map(lambda x: np.asarray(x)[None], signal), points)[0]
        twoF = rng.noncentral_chisquare(4, left)
        found.append(parameter_values(points) | {"twoF": twoF, "of": np.full(1500, number)})
    columns = {name: np.concatenate([x[name] for x in found]) for name in found[0]}
    order = np.argsort(-columns["twoF"])
    order = order[columns["twoF"][order] > 25]
    return {name: x[order] for name, x in columns.items()}


def test_each_signal_is_one_cluster(observed):
    columns = expected_candidates(observed, [(SIGNAL, 400.0), (OTHER, 250.0)])
    metric = flat_metric(observed, 1, observed.reftime, 100.1)
    first = clustered(columns, metric, 1.0)
    assert len(np.unique(first)) > 20, "side lobes lie beyond the metric's radius"
    leader = explained(columns, metric, Sampling.of(observed), START, first, 1e7)
    assert len(np.unique(leader)) <= 5  # of 1300, a few are beyond what noise does in the mean
    largest = [np.argmax(np.bincount(leader[columns["of"] == i])) for i in (0, 1)]
    assert largest[0] != largest[1]
    for i in (0, 1):  # none is counted to the other signal
        assert columns["of"][largest[i]] == i
        assert np.mean(leader[columns["of"] == i] == largest[i]) > 0.95
        assert not np.any(leader[columns["of"] == i] == largest[1 - i])


@pytest.mark.ci
def test_neighbours_in_other_orbits_join_and_noise_stays(observed):
    rng = np.random.default_rng(5)
    orbits = jfstat.Orbit(1.4 + 0.002 * rng.integers(-2, 3, 1500), np.full(1500, 68000.0), np.full(1500, START))
    signal = jfstat.Doppler(1.1, 0.35, [100.031, -3e-10], START, jfstat.Orbit(1.4, 68000.0, START))
    columns = expected_candidates(observed, [(signal, 400.0)], orbit=orbits)
    metric = flat_metric(observed, 1, observed.reftime, 100.1)
    first = clustered(columns, metric, 1.0)
    leader = explained(columns, metric, Sampling.of(observed), START, first, 1e7)
    assert len(np.unique(first)) > 20 and len(np.unique(leader)) <= 4
    # candidates that noise alone reaches explain nothing
    quiet = columns | {"twoF": np.sort(rng.uniform(25, 30, len(columns["twoF"])))[::-1]}
    np.testing.assert_array_equal(explained(quiet, metric, Sampling.of(observed), START, first, 1e9), first)


@pytest.mark.parametrize("members", [1, 3, 8])
def test_thin_clusters_invent_no_signals(observed, members):
    """A cluster of a few templates says little about where the signal is: an unrelated candidate stays."""
    metric = flat_metric(observed, 1, observed.reftime, 100.1)
    sampling, rng = Sampling.of(observed), np.random.default_rng(members)
    for seed in range(4):
        coordinates = jfstat.whiten(observed, SIGNAL)
        x = rng.normal(size=(members, 4))
        x *= 0.5 * rng.uniform(size=(members, 1)) / np.linalg.norm(x, axis=1, keepdims=True)
        points = jax.tree.map(np.asarray, jax.vmap(coordinates.point)(x))
        left = leaked(sampling, START, jax.tree.map(lambda x: np.asarray(x)[None], SIGNAL), points)[0]
        columns = parameter_values(points) | {"twoF": rng.noncentral_chisquare(4, 110 * left)}
        other = {name: np.append(x, x[0]) for name, x in columns.items()}
        other["freq"][-1] += 9.3 / (2 * DAY) * (-1) ** seed
        other["twoF"][-1] = 69.0
        order = np.argsort(-other["twoF"])
        other = {name: x[order] for name, x in other.items()}
        place = int(np.flatnonzero(order == members)[0])
        leader = explained(other, metric, sampling, START, clustered(other, metric, 1.0), 1e7)
        assert leader[place] == place


def test_orbits_at_one_frequency_and_position(observed):
    """Nothing but the orbit differs: there is no place to fit."""
    n = 12
    orbits = jfstat.Orbit(1.4 + 1e-4 * np.arange(n), np.full(n, 68000.0), np.full(n, START))
    points = jfstat.Doppler(np.ones(n), np.full(n, 0.3), np.tile([100.0, 0.0], (n, 1)), None, orbits)
    columns = parameter_values(jax.tree.map(np.asarray, points)) | {"twoF": np.linspace(200, 190, n)}
    metric = flat_metric(observed, 1, observed.reftime, 100.1)
    first = clustered(columns, metric, 1.0)
    leader = explained(columns, metric, Sampling.of(observed), START, first, 1e7)
    assert len(np.unique(first)) == n and len(np.unique(leader)) == 1


def test_a_line_leads_no_signal(observed):
    columns = expected_candidates(observed, [(SIGNAL, 400.0)])
    metric = flat_metric(observed, 1, observed.reftime, 100.1)
    first = clustered(columns, metric, 1.0)
    columns["log10BSGL"] = np.where(np.arange(len(first)) == 50, 3.0, -5.0)
    leader = explained(columns, metric, Sampling.of(observed), START, first, 1e7)
    assert leader[0] == 0 and (leader[50] == first[50])


@pytest.fixture(scope="module")
def with_line():
    """Half a day of two detectors: a signal, and a line in L1 that is much louder."""
    signal = jfstat.Doppler(1.1, 0.35, [50.012, -3e-10], START)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], START, 43200, 49.5, 50.6, sqrt_sx=4e-24, seed=3,
        signals=[(signal, jfstat.Amplitude(1e-24, 0.3, 0.2, 1.0))],
    )  # fmt: skip
    loud = sfts["L1"].data.copy()
    loud[:, round(50.02 * 1800) - sfts.first_bin] += 4e-24 * np.sqrt(900) * 6
    l1 = jfstat.sfts.SFTSeries("L1", sfts["L1"].gps, sfts["L1"].gps_ns, loud)
    sfts = jfstat.SFTs((sfts["H1"], l1), sfts.tsft, sfts.first_bin)
    return jfstat.prepare(sfts, 50.0, 50.04, sqrt_sx=4e-24, guard=0.4), signal


@pytest.mark.ci
def test_a_cut_by_the_line_robust_statistic_keeps_exactly_what_it_should(with_line):
    data, _ = with_line
    bank = jfstat.Doppler(
        np.array([0.2, 1.1, 4.4]), np.array([-0.6, 0.35, 0.35]), np.tile([50.0, -3e-10], (3, 1)), START
    )
    everything = jfstat.search(
        data,
        bank,
        top=None,
        threshold=10.0,
        progress=False,
        details=jfstat.Details(line_prior=jfstat.LinePrior(fstar0=1.0)),
    )
    for share in ({}, {"batch_size": 2}):
        cut = search(data, bank, top=None, threshold=10.0, bsgl_threshold=0.5, fstar0=1.0, progress=False, **share)
        wanted = everything[everything["log10BSGL"] >= 0.5]
        near = abs(everything["log10BSGL"] - 0.5) < 1e-3  # rounding decides on these
        rows = {(t, f) for t, f in zip(cut["template"], cut["freq"].value, strict=True)}
        other = {(t, f) for t, f in zip(wanted["template"], wanted["freq"].value, strict=True)}
        unsure = {(t, f) for t, f in zip(everything["template"][near], everything["freq"].value[near], strict=True)}
        assert 10 < len(rows) < 0.9 * len(everything) and rows ^ other <= unsure
        assert cut.meta["n_twoF"] == everything.meta["n_twoF"], "all are computed"
        assert cut.meta["bsgl_threshold"] == 0.5 and everything.meta["bsgl_threshold"] is None


@pytest.mark.ci
def test_ranked_and_cut_by_the_line_robust_statistic_the_signal_comes_first(with_line):
    data, _ = with_line
    bank = jfstat.template_bank([0.2, 1.1, 2.0], [0.1, 0.35], [-3e-10, 0.0], data=data)
    plain = jfstat.search(data, bank, top=50, progress=False, keep=jfstat.Keep(cluster=1.0))
    assert plain["log10BSGL"][0] < -20, "the line fills the table"
    table = jfstat.search(
        data, bank, top=50, progress=False, keep=jfstat.Keep(cluster=1.0, bsgl_threshold=0.0, ranking="BSGL")
    )
    assert abs(table["freq"][0].value - 50.012) < 2 / 43200 and table["log10BSGL"][0] > 5
    assert np.all(np.diff(table["log10BSGL"]) <= 0)
    assert table.meta["ranking"] == "BSGL" and table.meta["false_alarm"] < 1e-6
    units = [
        jfstat.search(data, bank, top=50, progress=False, keep=jfstat.Keep(cluster=1.0, bsgl_threshold=0.0,
        ranking="BSGL"), run=jfstat.Run(unit=(i, 2), batch_size=6)) for i in (1, 2)
    ]  # fmt: skip
    merged = jfstat.merge(units)
    whole = jfstat.search(
        data,
        bank,
        top=50,
        progress=False,
        keep=jfstat.Keep(cluster=1.0, bsgl_threshold=0.0, ranking="BSGL"),
        run=jfstat.Run(batch_size=6),
    )
    assert merged.colnames == whole.colnames
    for name in whole.colnames:
        np.testing.assert_array_equal(np.asarray(merged[name]), np.asarray(whole[name]))
    assert merged.meta["n_twoF"] == whole.meta["n_twoF"] and "sampling" not in merged.meta


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ranking": "2F"}, "ranking must be one of 'F', 'BSGL', not '2F'"),
        ({"ranking": "BSGL", "per_detector": False}, "needs several detectors and per_detector"),
        ({"bsgl_threshold": np.nan}, "bsgl_threshold must be a finite number"),
        ({"bsgl_threshold": 0.0, "olgx": [1.0]}, "olgx must be 2 finite odds"),
        ({"bsgl_threshold": 0.0, "engine": "cuda"}, "engine 'cuda' cannot cut by log10BSGL"),
    ],
)
def test_mistakes_are_named(with_line, options, message):
    data, _ = with_line
    with pytest.raises(ValueError, match=message) as error:
        search(data, jfstat.template_bank(1.0, 0.3, data=data), progress=False, **options)
    assert "\n" not in str(error.value)


def test_points_from_columns_have_no_reference_time_of_their_own():
    assert points_from({"freq": np.ones(2), "alpha": np.ones(2), "delta": np.ones(2)}, None).reftime is None

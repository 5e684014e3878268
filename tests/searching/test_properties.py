"""What holds for any data: on data, templates and options drawn at random."""

import numpy as np
import pytest

import jfstat

DAY, BAND = 86400, (60.0, 60.03)
SEEDS = [0, 1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 20))]


class Drawn:
    """SFTs of half a day with gaps, and a signal, from a seed; all seeds have arrays of the same sizes."""

    def __init__(self, seed):
        self.rng = rng = np.random.default_rng([97, seed])
        start = int(rng.integers(900_000_000, 1_400_000_000))
        slots = {name: np.sort(rng.choice(np.arange(1, 23), 18, replace=False)) for name in ("H1", "L1")}
        times = {name: start + 1800 * np.array([0, *own, 23]) for name, own in slots.items()}
        self.point = jfstat.Doppler(
            rng.uniform(0, 2 * np.pi), np.arcsin(rng.uniform(-1, 1)), [60.015, rng.uniform(-1e-8, 1e-8)], start + 20000
        )
        amplitude = jfstat.Amplitude(10 ** rng.uniform(-24, -23.2), *rng.uniform(-0.9, 0.9, 3))
        self.sfts = jfstat.simulate_sfts(
            ["H1", "L1"], timestamps=times, fmin=58.7, fmax=61.3, sqrt_sx=4e-24, seed=seed,
            signals=[(self.point, amplitude)],
        )  # fmt: skip

    def prepared(self, **options):
        return jfstat.prepare(self.sfts, *BAND, self.point.reftime, **options)

    def bank(self, n=4):
        """The signal's template and others anywhere."""
        alpha = np.append(self.rng.uniform(0, 2 * np.pi, n - 1), float(self.point.alpha))
        delta = np.append(np.arcsin(self.rng.uniform(-1, 1, n - 1)), float(self.point.delta))
        f1dot = np.append(self.rng.uniform(-1e-8, 1e-8, n - 1), float(self.point.fkdot[1]))
        return jfstat.Doppler(alpha, delta, np.stack([np.full(n, 60.0), f1dot], axis=1), self.point.reftime)


@pytest.fixture(params=SEEDS)
def drawn(request):
    return Drawn(request.param)


def at_row(row, reftime):
    spins = [row["freq"].value, row["f1dot"].value]
    return jfstat.Doppler(row["alpha"].value, row["delta"].value, spins, reftime)


def test_the_order_of_files_and_detectors_says_nothing(drawn, tmp_path):
    files = jfstat.write_sfts(drawn.sfts, tmp_path, merge=False)
    order = drawn.rng.permutation(len(files))
    shuffled = jfstat.read_sfts([files[i] for i in order])
    turned = jfstat.read_sfts([str(tmp_path)], detectors=["L1", "H1"])
    tables = []
    for sfts in (drawn.sfts, shuffled, turned):
        data = jfstat.prepare(sfts, *BAND, drawn.point.reftime)
        tables.append(jfstat.search(data, drawn.point, top=20, progress=False))
    for table in tables[1:]:
        for name in ("freq", "twoF", "twoF_H1", "twoF_L1", "h0"):
            np.testing.assert_allclose(table[name].value, tables[0][name].value, rtol=2e-5, err_msg=name)


def test_the_reference_time_says_nothing(drawn):
    data, later = drawn.prepared(), drawn.rng.uniform(-1e6, 1e6)
    f, f1dot = np.asarray(drawn.point.fkdot)
    moved = jfstat.Doppler(
        drawn.point.alpha, drawn.point.delta, [f + f1dot * later, f1dot], float(drawn.point.reftime.seconds) + later
    )
    np.testing.assert_allclose(jfstat.twoF(data, moved), jfstat.twoF(data, drawn.point), rtol=1e-6)


def test_units_of_a_search_are_the_whole(drawn):
    data, bank, n = drawn.prepared(), drawn.bank(), int(drawn.rng.integers(2, 5))
    whole = jfstat.search(data, bank, top=30, progress=False, run=jfstat.Run(batch_size=1))
    units = [
        jfstat.search(data, bank, top=30, progress=False, run=jfstat.Run(batch_size=1, unit=(i, n)))
        for i in range(1, n + 1)
    ]
    together = jfstat.merge([units[i] for i in drawn.rng.permutation(n)])
    assert together.colnames == whole.colnames
    for name in whole.colnames:
        np.testing.assert_array_equal(together[name], whole[name])
    assert together.meta["twoF_histogram"] == whole.meta["twoF_histogram"]


@pytest.mark.ci
def test_rows_over_segments_are_means(drawn):
    segments = drawn.prepared(segments=2)
    found = jfstat.search(segments, drawn.bank(), top=5, progress=False)
    for row in found:
        own = jfstat.mean_twoF(segments, at_row(row, found.meta["reftime"]))
        np.testing.assert_allclose(row["mean_twoF"], own, rtol=1e-5)


@pytest.mark.ci
def test_rows_of_transients_are_maxima_over_their_atoms(drawn):
    data = drawn.prepared()
    start = float(data.observation.ends[0])
    t0, tau = start + 3600.0 * np.arange(6), 3600.0 * np.arange(2, 8)
    windows = jfstat.TransientRange("rectangular", t0=t0, tau=tau)
    found = jfstat.search(data, drawn.bank(2), jfstat.Transient(windows), top=4, progress=False)
    for row in found:
        atoms = jfstat.atoms(data, at_row(row, found.meta["reftime"]))
        twoF = jfstat.transient_map(atoms, "rectangular", t0, tau).twoF
        np.testing.assert_allclose(row["max_twoF"], np.nanmax(twoF), rtol=1e-4)


@pytest.mark.ci
def test_refine_never_ends_below_its_start(drawn):
    data = drawn.prepared()
    found = jfstat.search(data, drawn.bank(), top=4, progress=False)
    refined = jfstat.refine(data, found, progress=False)
    moved = refined[np.isfinite(refined["twoF"])]
    assert len(moved)
    assert np.all(moved["twoF"] >= moved["start_twoF"] - 1e-6)
    for row in moved:
        point = jfstat.Doppler(
            row["alpha"].value, row["delta"].value, [row["freq"].value, row["f1dot"].value], refined.meta["reftime"]
        )
        np.testing.assert_allclose(jfstat.twoF(data, point), row["twoF"], rtol=1e-4)


@pytest.mark.ci
def test_a_cut_by_the_line_robust_statistic_leaves_what_is_above_it(drawn):
    data, bank = drawn.prepared(), drawn.bank()
    everything = jfstat.search(data, bank, top=None, threshold=0.0, progress=False)
    cut = float(np.quantile(everything["log10BSGL"], drawn.rng.uniform(0.5, 0.95)))
    kept = jfstat.search(data, bank, top=None, threshold=0.0, progress=False, keep=jfstat.Keep(bsgl_threshold=cut))
    above = everything[everything["log10BSGL"] >= cut]
    # values within rounding of the cut may fall on either side
    assert abs(len(kept) - len(above)) <= 2
    assert np.all(kept["log10BSGL"] >= cut - 1e-3)
    assert set(zip(above["template"][:50], above["freq"].value[:50], strict=True)) <= set(
        zip(kept["template"], kept["freq"].value, strict=True)
    )

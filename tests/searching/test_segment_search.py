"""Searches over segments: means of twoF_band, the direct sum, identical tables however divided, tallies of noise."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy.table import QTable
from scipy import stats

import jfstat
from jfstat.lines.doppler import detector_range
from jfstat.maths.vectors import unit_vector
from jfstat.metrics.phasemetric import flat_metric
from jfstat.reference import direct_twoF

START = 1_167_458_304
DAY = 86400
SIGNAL = (jfstat.Doppler(1.05, 0.35, [100.02, -4e-10], START), jfstat.Amplitude(1.5e-25, 0.3, 0.2, 1.0))


@pytest.fixture(scope="module")
def sfts():
    whole = jfstat.simulate_sfts(["H1", "L1"], START, 4 * DAY, 98.9, 101.1, signals=[SIGNAL], seed=1)
    return jfstat.join_sfts([whole.select(end=START + 2.2 * DAY), whole.select(start=START + 2.6 * DAY)])


@pytest.fixture(scope="module")
def segments(sfts):
    return jfstat.prepare(sfts, 100.0, 100.04, START, sqrt_sx=4e-24, segments=8, guard=0.5)


@pytest.fixture(scope="module")
def bank(segments):
    lattice = jfstat.template_bank(alpha=(1.0, 1.1), delta=(0.3, 0.4), f1dot=(-1e-9, 0), mismatch=0.2, data=segments)
    other = jax.tree.map(lambda x: x[:5], lattice)
    turned = jfstat.Doppler(other.alpha + 1.0, other.delta - 0.5, other.fkdot, other.reftime)
    return jax.tree.map(lambda *x: jnp.concatenate(x), lattice, turned)


@pytest.fixture(scope="module")
def found(segments, bank):
    return jfstat.search(segments, bank, top=40, progress=False)


def row_point(table, i):
    row = [float(table[name][i].value) for name in ("alpha", "delta", "freq", "f1dot")]
    return jfstat.Doppler(row[0], row[1], row[2:], table.meta["reftime"])


@pytest.mark.ci
def test_values_are_means_of_every_segments_band(segments, bank, found):
    def band(point):
        return jnp.mean(jax.vmap(jfstat.twoF_band, (0, None))(segments, point), axis=0)

    means = np.asarray(jax.lax.map(band, bank))
    loudest = np.argsort(-means, axis=None)[:40]
    template, frequency = np.unravel_index(loudest, means.shape)
    np.testing.assert_allclose(found["mean_twoF"], means[template, frequency], rtol=1e-5)
    np.testing.assert_array_equal(found["template"][:5], template[:5])
    np.testing.assert_allclose(found["freq"].value[:5], segments.frequencies[frequency[:5]], rtol=1e-12)
    assert found.meta["n_twoF"] == means.size
    edges = np.append(found.meta["twoF_edges"], np.inf)
    edges[0] = -np.inf
    counts = np.histogram(means, edges)[0]
    assert np.sum(np.abs(counts - found.meta["twoF_histogram"])) <= 4  # at the edges
    assert max(found.meta["loudest_per_subband"]["twoF"]) == found["mean_twoF"][0]


@pytest.mark.ci
def test_candidates_are_exact(segments, found):
    for i in (0, 7):
        point = row_point(found, i)
        exact = jfstat.semicoherent_fstat(segments, point)
        assert float(found["mean_twoF"][i]) == pytest.approx(float(exact.mean_twoF), rel=1e-4)
        np.testing.assert_allclose(found["mean_twoF_L1"][i], exact.mean_twoF_per_detector[1], rtol=3e-7)
        np.testing.assert_allclose(found["log10BSGL"][i], exact.log10BSGL(), rtol=3e-7)
        estimate = jfstat.semicoherent_amplitude(segments, point)
        np.testing.assert_allclose(found["h0"][i], estimate.h0, rtol=3e-7)
        np.testing.assert_allclose(found["psi_error"][i].value, estimate.psi_error, rtol=3e-6)
    direct = [direct_twoF(segments[k], row_point(found, 0), found["freq"][:1].value)[0] for k in range(8)]
    assert float(found["mean_twoF"][0]) == pytest.approx(np.mean(direct), rel=1e-4)


def test_the_table_says_what_it_is(segments, found):
    names = ["freq", "f1dot", "alpha", "delta", "mean_twoF", "mean_twoF_H1", "mean_twoF_L1", "log10BSGL", "h0", "cosi"]
    names += ["psi", "h0_error", "cosi_error", "psi_error", "template"]
    assert found.colnames == names
    assert str(found["psi"].unit) == "rad" and str(found["freq"].unit) == "Hz"
    meta = found.meta
    assert meta["n_segments"] == 8 and meta["segment_tspan"] == pytest.approx(DAY / 2, rel=0.1)
    assert meta["start"] == START and meta["tspan"] == pytest.approx(4 * DAY, rel=0.03)
    assert sum(meta["n_sfts"]) == sum(
        np.sum(np.asarray(segments.observation.weight) > 0, axis=(0, 1, 2), keepdims=True).ravel()
    )
    sums = 8 * float(found["mean_twoF"][0])
    expected = -np.expm1(meta["n_twoF"] * np.log1p(-stats.chi2(32).sf(sums)))
    assert meta["false_alarm"] == pytest.approx(expected, rel=1e-9)
    assert abs(found["freq"][0].value - 100.02) < 3 / (DAY / 2)


def assert_same(one, other):
    assert one.colnames == other.colnames
    for name in one.colnames:
        np.testing.assert_array_equal(np.asarray(one[name]), np.asarray(other[name]), err_msg=name)
    for key in ("n_twoF", "twoF_histogram", "loudest_per_subband", "false_alarm", "reftime"):
        assert one.meta[key] == other.meta[key], key


@pytest.mark.ci
def test_tables_do_not_depend_on_the_division(segments, bank, found, tmp_path):
    whole = jfstat.search(segments, bank, top=40, progress=False, run=jfstat.Run(batch_size=4))
    units = [
        jfstat.search(segments, bank, top=40, progress=False, run=jfstat.Run(batch_size=4, unit=(i, 3)))
        for i in (1, 2, 3)
    ]
    assert_same(jfstat.merge(units), whole)
    mesh = jax.make_mesh((len(jax.devices()),), ("x",))
    assert_same(jfstat.search(segments, bank, top=40, progress=False, run=jfstat.Run(batch_size=4, mesh=mesh)), whole)
    path = tmp_path / "checkpoint"
    assert_same(
        jfstat.search(segments, bank, top=40, progress=False, checkpoint=path, run=jfstat.Run(batch_size=4)), whole
    )
    assert_same(
        jfstat.search(segments, bank, top=40, progress=False, checkpoint=path, run=jfstat.Run(batch_size=4)), whole
    )
    other = jax.tree.map(lambda x: x[:7], segments)
    with pytest.raises(ValueError, match=r"of another search: what differs is .*segments"):
        jfstat.search(other, bank, top=40, progress=False, checkpoint=path, run=jfstat.Run(batch_size=4))


@pytest.mark.ci
@pytest.mark.parametrize("statistic", [jfstat.MeanTwoF(), jfstat.Interpolated(0.2), jfstat.BSGL(), jfstat.BSGLtL()])
def test_columns_of_many_candidates_are_computed_in_parts(segments, bank, statistic, monkeypatch, capsys):
    table = jfstat.search(segments, bank, statistic, top=20, progress=False)
    monkeypatch.setattr("jfstat.searching.result.COLUMNS_TOGETHER", 7)
    monkeypatch.setattr("jfstat.searching.session.progress.FIRST_LINE", 0.0)
    assert_same(jfstat.search(segments, bank, statistic, top=20), table)
    assert "details: 7 of 20 candidates (35 %)" in capsys.readouterr().err
    assert_same(jfstat.search(segments, bank, statistic, top=20, progress=False), table)
    assert not capsys.readouterr().err
    few = jfstat.search(segments, bank[:1], statistic, top=None, threshold=1e6, progress=False)
    assert len(few) == 0 and few.colnames == table.colnames


@pytest.mark.slow
def test_columns_of_coherent_searches_are_computed_in_parts(sfts, bank, monkeypatch, capsys):
    data = jfstat.prepare(sfts, 100.0, 100.01, START, sqrt_sx=4e-24, guard=0.5)
    windows = jfstat.TransientRange("rectangular", START + 43200.0 * np.arange(3), [86400.0])
    for statistic in (jfstat.TwoF(), jfstat.Transient(windows)):
        table = jfstat.search(data, bank[:20], statistic, top=20, progress=False)
        with monkeypatch.context() as changed:
            changed.setattr("jfstat.searching.result.COLUMNS_TOGETHER", 7)
            changed.setattr("jfstat.searching.session.progress.FIRST_LINE", 0.0)
            assert_same(jfstat.search(data, bank[:20], statistic, top=20), table)
        assert "details: 7 of 20 candidates (35 %)" in capsys.readouterr().err


@pytest.mark.ci
def test_columns_that_share_work_are_computed_together(segments, bank, monkeypatch, capsys):
    """The distribution of best paths in noise is simulated once."""
    monkeypatch.setattr("jfstat.searching.result.COLUMNS_TOGETHER", 7)
    monkeypatch.setattr("jfstat.searching.session.progress.FIRST_LINE", 0.0)
    table = jfstat.search(segments, bank, jfstat.BestPath(1), top=20)
    assert len(table) == 20 and "details" not in capsys.readouterr().err


def test_histogram_of_noise_has_4_degrees_of_freedom_a_segment():
    noise = jfstat.simulate_sfts(["H1", "L1"], START, 2 * DAY, 98.9, 102.1, seed=5)
    segments = jfstat.prepare(noise, 100.0, 101.0, START, sqrt_sx=4e-24, segments=4, guard=0.5)
    rng = np.random.default_rng(1)
    bank = jfstat.Doppler(rng.uniform(0, 6, 3), rng.uniform(-1, 1, 3), np.zeros((3, 2)), START)
    table = jfstat.search(segments, bank, top=1, progress=False, details=jfstat.Details(per_detector=False))
    edges = np.append(table.meta["twoF_edges"], np.inf)
    edges[0] = 0
    expected = np.diff(stats.chi2(16).cdf(4 * edges)) * table.meta["n_twoF"]
    counts = np.array(table.meta["twoF_histogram"])
    many = expected > 50
    # neighbouring bins are correlated: a spread of twice the square root
    assert np.all(np.abs(counts - expected)[many] < 2 * 4.5 * np.sqrt(expected[many]))


def test_clusters_form_by_the_metric_of_all_segments(segments, bank, found):
    table = jfstat.search(segments, bank, top=40, progress=False, keep=jfstat.Keep(cluster=1.0))
    assert np.sum(table["n_members"]) == len(found)
    assert table["mean_twoF"][0] == found["mean_twoF"][0] and table["n_members"][0] > 1
    metric = flat_metric(segments.observation, 1, segments.observation.reftime.common, table.meta["fmax"])
    names = ("freq", "f1dot")
    n = unit_vector(np.asarray(table["alpha"]), np.asarray(table["delta"]))
    place = np.column_stack([*(table[name].value for name in names), n])
    offset = place[1:] - place[0]
    assert np.all(np.einsum("ki,ij,kj->k", offset, metric, offset) > 1.0)
    units = [
        jfstat.search(
            segments, bank, top=40, progress=False, keep=jfstat.Keep(cluster=1.0), run=jfstat.Run(unit=(i, 2))
        )
        for i in (1, 2)
    ]
    assert_same(jfstat.merge(units), table)


@pytest.mark.ci
def test_lines_are_crossed_in_any_segment(segments, bank, found):
    """Each detector's frequencies, by the observation of every segment in turn."""
    point = row_point(found, 0)
    ends = [detector_range(own, point, np.linspace(0, 1, 3)) for own in segments.observation.segments]
    low, high = (np.array(x) for x in zip(*ends, strict=True))  # (K, D)
    last = 0.5 * (np.sort(high[:, 0])[-1] + np.sort(high[:, 0])[-2])  # only one segment reaches so far
    bands = [(last, last + 1e-7), (high[:, 0].max() + 1e-6, high[:, 0].max() + 2e-6)]
    lines = QTable({"detector": ["H1", "H1"], "fmin": [x[0] for x in bands], "fmax": [x[1] for x in bands]})
    lines["name"] = ["crossed", "beyond"]
    own = jfstat.search(segments, bank, top=3, progress=False, keep=jfstat.Keep(lines=lines))
    assert "crossed" in own["line"][0] and "beyond" not in own["line"][0]
    assert own["line"][0] == jfstat.flag_lines(segments, found[:1], lines)["line"][0]
    assert low.min() < last


def test_options_for_data_without_segments_are_refused(segments, bank):
    with pytest.raises(ValueError, match="bsgl_threshold does not go with Interpolated"):
        jfstat.search(segments, bank, jfstat.Interpolated(0.2), keep=jfstat.Keep(bsgl_threshold=1.0))
    lines = QTable({"detector": ["H1"], "fmin": [50.0], "fmax": [50.1], "name": ["a line"]})
    with pytest.raises(ValueError, match="veto_lines is for data without segments"):
        jfstat.search(segments, bank, keep=jfstat.Keep(lines=lines, veto_lines=True))
    with pytest.raises(ValueError, match="cluster does not go with BestPath"):
        jfstat.search(segments, bank, jfstat.BestPath(1), keep=jfstat.Keep(cluster=1.0))
    with pytest.raises(ValueError, match="engine 'cuda' cannot do this for data with segments"):
        jfstat.search(segments, bank, run=jfstat.Run(engine="cuda"))

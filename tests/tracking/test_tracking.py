"""Wandering signals: tables of 2F by segment, tracks, searches for them, and how loud the best path is in noise."""

import dataclasses
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special
from astropy import units as u
from astropy.table import QTable
from searches import search

import jfstat
from jfstat.commandline import main
from jfstat.statistic.null import NullDistribution
from jfstat.statistic.semicoherent import semicoherent_terms
from jfstat.tracking.null import ALL_TABLES, null_of_paths

START = 1_167_458_304
SEGMENTS, LENGTH = 6, 43200
STEP = 1 / (2 * LENGTH)
ORBIT = jfstat.Orbit(asini=1.44, period=68023.7, tp=START + 1000.0)
SKY = (4.276, -0.273)
AMPLITUDE = jfstat.Amplitude(5e-25, 0.3, 0.2, 0.4)
PATH = 50.0 + STEP * np.array([0, 1, 1, 2, 1, 0])
"""Frequencies of the signal, which are also in the middle of bins."""


F1DOT = -8e-10
MIDDLES = START + (np.arange(SEGMENTS) + 0.5) * LENGTH


def wandering():
    """SFTs with a signal whose frequency jumps between segments, with a phase of its own in each."""
    parts = []
    for k, f in enumerate(PATH):
        point = jfstat.Doppler(*SKY, [f, F1DOT], START, orbit=ORBIT)
        amplitude = jfstat.Amplitude(AMPLITUDE.h0, AMPLITUDE.cosi, AMPLITUDE.psi, float(k))
        begin = START + k * LENGTH
        signals = [(point, amplitude)]
        parts.append(
            jfstat.simulate_sfts(["H1", "L1"], begin, LENGTH, 49.8, 50.2, signals=signals, sqrt_sx=1e-23, seed=k)
        )
    return jfstat.join_sfts(parts)


@pytest.fixture(scope="module")
def sfts():
    return wandering()


@pytest.fixture(scope="module")
def segments(sfts):
    return jfstat.prepare(
        sfts, 49.998, 50.002, segments=SEGMENTS, sqrt_sx=1e-23, orbit=ORBIT, guard=0.1, fdots=[(-1.5e-9, 0)]
    )


def template(asini=1.44):
    orbit = jfstat.Orbit(asini, ORBIT.period, ORBIT.tp)
    return jfstat.Doppler(*SKY, [50.0, F1DOT], START, orbit=orbit)


@pytest.fixture(scope="module")
def bank():
    return jax.vmap(template)(jnp.linspace(1.40, 1.48, 5))


@pytest.mark.ci
def test_the_table_has_the_band_of_each_segment(segments):
    table = jfstat.twoF_by_segment(segments, template())
    assert table.shape == (SEGMENTS, len(segments.frequencies)) and table.dtype == np.float32
    for k in (0, 4):
        np.testing.assert_allclose(table[k], jfstat.twoF_band(segments[k], template()), rtol=1e-5, atol=1e-4)


@pytest.mark.ci
def test_f1dots_are_those_at_the_middle_of_a_segment(segments):
    f1dots = F1DOT + np.array([-5e-10, 0.0, 5e-10])
    table = jfstat.twoF_by_segment(segments, template(), f1dot=f1dots)
    k, m = 3, 2
    middle = int(segments.observation.epoch[k]) + float(segments.observation.middle[k])
    own = jfstat.Doppler(*SKY, [50.0, f1dots[m]], middle, orbit=ORBIT)
    np.testing.assert_allclose(table[k, :, m], jfstat.twoF_band(segments[k], own), rtol=1e-4, atol=1e-3)
    # the path of frequency and spin-down
    drift = np.round(f1dots * LENGTH / segments.dfreq).astype(int)
    best = jfstat.viterbi(table / 2, np.log([[1 / 9] * 3] * 3), drift=drift)
    assert table.shape[2] == 3 and best.path.shape == (SEGMENTS, 2)
    there = PATH + F1DOT * (MIDDLES - START)
    # with the wrong spin-down in one segment, some bins away in it
    off = np.abs(segments.frequencies[best.path[:, 0]] - there)
    assert np.sum(off < 1.5 * STEP) >= SEGMENTS - 1


def test_the_likelihood_of_a_known_amplitude(segments):
    table = np.asarray(jfstat.log_likelihood_by_segment(segments, template(), AMPLITUDE))
    column = 100
    point = jfstat.Doppler(*SKY, [segments.frequencies[column], F1DOT], START, orbit=ORBIT)
    y = np.asarray(semicoherent_terms(segments, point)[1])
    a1, a2, a3, a4 = np.asarray(AMPLITUDE.canonical)
    overlap = np.abs(y @ np.conj([a1 - 1j * a3, a2 - 1j * a4]))
    power = [float(jfstat.predict_twoF(segments[k], point, AMPLITUDE)) - 4 for k in range(SEGMENTS)]
    wanted = np.log(scipy.special.ive(0, overlap)) + overlap - np.array(power) / 2
    # those of the band are resampled in float32
    np.testing.assert_allclose(table[:, column], wanted, rtol=1e-3, atol=0.02)
    # the likelihood ratio is 1 in the mean over noise
    noise = np.delete(table, np.arange(150, 200), axis=1)
    weak = jfstat.Amplitude(1e-25, 0.3, 0.2)
    ratio = np.exp(np.asarray(jfstat.log_likelihood_by_segment(segments, template(), weak), float)[:, :120])
    assert noise.shape[1] > 200
    assert abs(ratio.mean() - 1) < 5 * ratio.std() / np.sqrt(ratio.size / 4)  # neighbours are correlated


@pytest.mark.ci
def test_the_track_of_a_signal(segments):
    own = jfstat.track(segments, template())
    np.testing.assert_allclose(own.frequencies, PATH, atol=1.1 * STEP)
    assert np.sum(np.abs(np.asarray(own.frequencies) - PATH) < 0.5 * STEP) >= 4
    np.testing.assert_allclose(own.gps, MIDDLES)
    drifted = own.frequencies + F1DOT * (own.gps - START)
    np.testing.assert_allclose(own.instantaneous, drifted, rtol=0, atol=1e-9)
    table = np.asarray(jfstat.twoF_by_segment(segments, template()))
    np.testing.assert_allclose(own.twoF, table[np.arange(SEGMENTS), own.path])
    wanted = float(own.twoF.sum()) / 2 - (SEGMENTS - 1) * np.log(3)
    assert float(own.log_likelihood) == pytest.approx(float(wanted), rel=1e-5)
    assert float(own.mean_twoF) == pytest.approx(table[np.arange(SEGMENTS), own.path].mean(), rel=1e-6)
    known = jfstat.track(segments, template(), amplitude=AMPLITUDE)
    np.testing.assert_allclose(known.frequencies, PATH, atol=1.1 * STEP)
    assert float(known.log_likelihood) > 20
    both = jax.vmap(jfstat.track, (None, 0))(segments, jax.vmap(template)(jnp.array([1.44, 1.40])))
    assert both.path.shape == (2, SEGMENTS) and both.score.shape == (2,)
    assert float(both.log_likelihood[0]) == pytest.approx(float(own.log_likelihood), rel=1e-5)


@pytest.mark.ci
def test_a_search_for_tracks(segments, bank, tmp_path):
    found = jfstat.search(segments, bank, jfstat.BestPath(1), top=4, progress=False)
    assert len(found) == 4 and len(set(found["template"])) == 4  # a row for each template
    first = found[0]
    assert first["template"] == 2 and float(first["false_alarm"]) < 1e-6
    assert np.all(np.diff(found["log_likelihood"]) <= 0) and np.all(np.diff(found["false_alarm"]) >= 0)
    own = jfstat.track(segments, first)
    assert float(own.log_likelihood) == pytest.approx(float(first["log_likelihood"]), rel=1e-6)
    assert float(own.frequencies[-1]) == pytest.approx(first["freq"].to_value("Hz"), abs=1e-12)
    assert float(own.frequencies[0]) == pytest.approx(first["freq_start"].to_value("Hz"), abs=1e-12)
    assert float(own.score) == pytest.approx(float(first["score"]), rel=1e-6)
    assert float(own.mean_twoF) == pytest.approx(float(first["mean_twoF"]), rel=1e-4)
    # along the path, by sums over all data
    points = [jfstat.Doppler(*SKY, [float(f), F1DOT], START, orbit=ORBIT) for f in own.frequencies]
    each = [np.asarray(jfstat.fstat(segments[k], point).twoF_per_detector) for k, point in enumerate(points)]
    np.testing.assert_allclose(
        [float(first["mean_twoF_H1"]), float(first["mean_twoF_L1"])], np.mean(each, axis=0), rtol=1e-9
    )
    assert abs(float(first["h0"]) - float(AMPLITUDE.h0)) < 4 * float(first["h0_error"])
    assert found.meta["transitions"] == pytest.approx([-np.log(3)] * 3)
    jfstat.write_candidates(found, tmp_path / "found.txt")
    assert jfstat.read_candidates(tmp_path / "found.txt").meta["transitions"] == found.meta["transitions"]
    assert found.meta["n_templates"] == 5
    assert found.meta["false_alarm"] == pytest.approx(5 * float(first["false_alarm"]), rel=1e-3)
    assert sum(found.meta["twoF_histogram"]) == found.meta["n_twoF"] == 5 * len(segments.frequencies)
    assert max(found.meta["loudest_per_subband"]["twoF"]) == pytest.approx(float(first["log_likelihood"]))
    # divided, and with a checkpoint, to the last bit
    units = [
        jfstat.search(segments, bank, jfstat.BestPath(1), top=4, progress=False, run=jfstat.Run(unit=(i, 2)))
        for i in (1, 2)
    ]
    stored = [
        jfstat.search(
            segments, bank, jfstat.BestPath(1), top=4, threshold=None, checkpoint=tmp_path / "state", progress=False
        )
        for _ in range(2)
    ]
    for table in (jfstat.merge(units), *stored):
        for name in found.colnames:
            np.testing.assert_array_equal(table[name], found[name])
    with pytest.raises(ValueError, match="statistic"):
        jfstat.search(
            segments, bank, jfstat.BestPath(2), top=4, threshold=None, checkpoint=tmp_path / "state", progress=False
        )
    least = float(found["log_likelihood"][1])
    loud = jfstat.search(
        segments,
        bank,
        jfstat.BestPath(1),
        top=None,
        threshold=least,
        progress=False,
        details=jfstat.Details(per_detector=False),
    )
    assert len(loud) == 2 and "h0" not in loud.colnames and "mean_twoF" in loud.colnames
    assert len(jfstat.search(segments, bank, jfstat.BestPath(1), top=4, threshold=1e4, progress=False)) == 0


@pytest.mark.ci
@pytest.mark.parametrize("amplitude", [None, pytest.param(AMPLITUDE, marks=pytest.mark.slow)])
def test_a_path_of_each_subband_of_each_template(segments, bank, amplitude):
    """Among all paths' ends, which `track` gives, the best in each millihertz; the signal is close to an edge."""
    statistic = jfstat.BestPath(1, amplitude, 1e-3)
    found = search(segments, bank, statistic, top=None, threshold=-1e9, progress=False)
    width = round(1e-3 / STEP)
    assert found.meta["subband"] == pytest.approx(width * STEP) and found.meta["n_subbands"] == 5
    assert len(found) == 25 and len({*zip(found["template"], ends(segments, found) // width, strict=True)}) == 25
    points = [jax.tree.map(lambda x, i=i: x[i], bank) for i in range(5)]
    final = np.stack([jfstat.track(segments, own, amplitude=amplitude).final for own in points])
    for row, end in zip(found, ends(segments, found), strict=True):
        first = end // width * width
        inside = final[row["template"]][first : first + width]
        assert float(row["log_likelihood"]) == pytest.approx(float(inside.max()), rel=1e-5, abs=1e-4)
        assert first + np.argmax(inside) == end
        there = inside[inside > -1e20].astype(np.float64)
        if len(there) > 1:
            assert float(row["score"]) == pytest.approx((there.max() - there.mean()) / there.std(), rel=1e-4)
    for row in found[:: len(found) // 4]:  # the table says which sub-band
        path = jfstat.track(segments, row)
        assert float(path.log_likelihood) == pytest.approx(float(row["log_likelihood"]), rel=1e-5, abs=1e-4)
        assert float(path.frequencies[-1]) == pytest.approx(row["freq"].to_value("Hz"), abs=1e-12)
        assert float(path.frequencies[0]) == pytest.approx(row["freq_start"].to_value("Hz"), abs=1e-12)
        assert float(path.score) == pytest.approx(float(row["score"]), rel=1e-4)
        assert float(path.mean_twoF) == pytest.approx(float(row["mean_twoF"]), rel=1e-4)
    whole = search(segments, bank, jfstat.BestPath(1, amplitude), top=5, progress=False)
    for name in ("template", "freq", "log_likelihood", "mean_twoF"):
        assert found[name][0] == whole[name][0]
    known = None if amplitude is None else jfstat.Amplitude(AMPLITUDE.h0, 0.3, 0.2)  # random numbers differ with phi0
    null = null_of_paths(segments, template(), 1, width, known, within=False)
    np.testing.assert_allclose(found["false_alarm"], null.false_alarm(found["log_likelihood"]), rtol=1e-6)
    chances = float(found["false_alarm"].min())
    assert found.meta["false_alarm"] == pytest.approx(-np.expm1(25 * np.log1p(-chances)), rel=1e-6)
    merged = jfstat.merge([search(segments, bank, statistic, top=12, unit=(i, 2), progress=False) for i in (1, 2)])
    for name in found.colnames:
        np.testing.assert_array_equal(merged[name], found[name][:12], err_msg=name)


@pytest.mark.slow
def test_a_subband_as_wide_as_the_band_is_all_of_it(segments, bank):
    for width in (0.004005, 1.0):
        found = search(segments, bank, jfstat.BestPath(1, subband=width), top=9, progress=False)
        assert len(found) == 5 and found.meta["n_subbands"] == 1
        whole = search(segments, bank, jfstat.BestPath(1), top=9, progress=False)
        np.testing.assert_array_equal(found["false_alarm"], whole["false_alarm"])


@pytest.mark.ci
def test_the_path_of_a_row_is_the_searchs(sfts, segments, bank):
    """With its transitions, and in its sub-band, whatever band the data have."""
    transitions = np.log([0.01, 0.02, 0.94, 0.02, 0.01])
    found = search(segments, bank, jfstat.BestPath(transitions, subband=1e-3), top=None, threshold=-1e9, progress=False)
    shifted = jfstat.prepare(
        sfts, 49.9983, 50.0023, segments=SEGMENTS, sqrt_sx=1e-23, orbit=ORBIT, guard=0.1, fdots=[(-1.5e-9, 0)]
    )
    inner = [row for row in found if row["freq"].value > 49.999]
    for row in inner[:4]:
        own = jfstat.track(segments, row)
        assert float(own.frequencies[-1]) == pytest.approx(row["freq"].value, abs=1e-12)
        assert float(own.log_likelihood) == pytest.approx(float(row["log_likelihood"]), rel=1e-5)
        other = jfstat.track(shifted, row)  # whose frequencies lie elsewhere
        assert float(other.frequencies[-1]) == pytest.approx(row["freq"].value, abs=1.1 * STEP)
        assert float(other.log_likelihood) == pytest.approx(float(row["log_likelihood"]), rel=0.2)
    beyond = jfstat.prepare(
        sfts, 50.005, 50.006, segments=SEGMENTS, sqrt_sx=1e-23, orbit=ORBIT, guard=0.1, fdots=[(-1.5e-9, 0)]
    )
    with pytest.raises(ValueError, match="outside of the band of segments"):
        jfstat.track(beyond, found[0])


def ends(segments, found):
    """Indices of the paths' last frequencies."""
    return np.round((found["freq"].to_value("Hz") - float(segments.fmin)) / float(segments.dfreq)).astype(int)


@pytest.mark.parametrize(
    ("subband", "message"),
    [
        (0.0, "subband must be a positive number"),
        (np.nan, "subband must be a positive number"),
        ("wide", "subband must be a positive number"),
        (True, "subband must be a positive number"),
        (1e-5, "subband is 1e-05 Hz, which is less than two"),
    ],
)
def test_impossible_subbands_are_refused(segments, bank, subband, message):
    with pytest.raises(ValueError, match=message):
        jfstat.plan_search(segments, bank, jfstat.BestPath(1, subband=subband), progress=False)


@pytest.mark.slow
def test_a_search_for_tracks_of_a_known_amplitude(segments, bank, tmp_path):
    known = dict(progress=False, statistic=jfstat.BestPath(1, AMPLITUDE))
    found = search(segments, bank, top=4, **known)
    assert found[0]["template"] == 2 and np.all(np.diff(found["log_likelihood"]) <= 0)
    for i in (0, 3):
        own = jfstat.track(segments, found[i])  # the table says for which amplitude
        assert float(own.log_likelihood) == pytest.approx(float(found["log_likelihood"][i]), rel=1e-5)
        assert float(own.frequencies[-1]) == pytest.approx(found["freq"][i].to_value("Hz"), abs=1e-12)
        assert float(own.frequencies[0]) == pytest.approx(found["freq_start"][i].to_value("Hz"), abs=1e-12)
        assert float(own.mean_twoF) == pytest.approx(float(found["mean_twoF"][i]), rel=1e-4)
    # by the noise's own distribution for this amplitude, whose phase does not matter but to its random numbers
    null = jfstat.viterbi_null(segments, template(), 1, amplitude=jfstat.Amplitude(AMPLITUDE.h0, 0.3, 0.2))
    np.testing.assert_allclose(found["false_alarm"], null.false_alarm(found["log_likelihood"]), rtol=1e-6)
    assert found.meta["amplitude"] == {"h0": float(AMPLITUDE.h0), "cosi": float(AMPLITUDE.cosi), "psi": 0.2}
    assert sum(found.meta["twoF_histogram"]) == found.meta["n_twoF"] == 5 * len(segments.frequencies)
    assert max(found.meta["loudest_per_subband"]["twoF"]) == pytest.approx(float(found["log_likelihood"][0]))
    # a weak amplitude's likelihoods are near 0 in noise, which must not all be in the histogram's first bin
    weak = jfstat.search(segments, bank, jfstat.BestPath(1, jfstat.Amplitude(5e-26, 0.3)), top=1, progress=False)
    assert weak.meta["twoF_histogram"][0] < 0.9 * weak.meta["n_twoF"]
    units = [search(segments, bank, top=4, unit=(i, 2), **known) for i in (1, 2)]
    stored = [search(segments, bank, top=4, checkpoint=tmp_path / "state", **known) for _ in range(2)]
    for table in (jfstat.merge(units), *stored):
        for name in found.colnames:
            np.testing.assert_array_equal(table[name], found[name])
    for other in (None, jfstat.Amplitude(AMPLITUDE.h0, 0.31, 0.2)):
        with pytest.raises(ValueError, match="statistic"):
            search(
                segments,
                bank,
                top=4,
                checkpoint=tmp_path / "state",
                **(known | {"statistic": jfstat.BestPath(1, other)}),
            )
    # the noise depends on the sky position then
    two = jax.tree.map(lambda x: jnp.concatenate([x[:1], x]), bank)
    two = dataclasses.replace(two, alpha=two.alpha.at[0].add(0.5))
    elsewhere = search(segments, two, top=6, **known)
    assert np.isnan(elsewhere["false_alarm"][elsewhere["template"] > 0]).all()
    assert np.isfinite(elsewhere["false_alarm"][elsewhere["template"] == 0]).all() and elsewhere.meta["false_alarm"] > 0
    with pytest.raises(TypeError, match="amplitude must be"):
        jfstat.search(segments, bank, jfstat.BestPath(1, True), progress=False)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(ranking="BSGL"), "does not go with BestPath"),
        (dict(engine="cuda"), "cannot find paths"),
        (dict(cluster=1.0), "cluster does not go with BestPath"),
    ],
)
def test_options_that_do_not_go_with_paths(segments, bank, arguments, message):
    with pytest.raises(ValueError, match=message):
        search(segments, bank, jfstat.BestPath(1), progress=False, **arguments)


@pytest.mark.parametrize(
    ("transitions", "message"), [(np.zeros((3, 3)), "of frequency alone"), ([0.0, 0.0], "odd number")]
)
def test_transitions_that_a_search_cannot_have(transitions, message):
    with pytest.raises(ValueError, match=message):
        jfstat.BestPath(transitions)


def test_data_that_cannot_be_tracked(segments, bank):
    with pytest.raises(ValueError, match="BestPath is for data with segments"):
        jfstat.search(segments[0], bank, jfstat.BestPath(1), progress=False)
    with pytest.raises(ValueError, match="no segments"):
        jfstat.track(segments[0], template())
    with pytest.raises(ValueError, match="f1dot 1e-05 does not fit"):
        jfstat.twoF_by_segment(segments, template(), f1dot=[0.0, 1e-5])
    with pytest.raises(ValueError, match="row"):
        jfstat.track(segments, QTable({"alpha": [1.0, 2.0]}))


@pytest.mark.ci
def test_a_track_from_the_command_line(sfts, tmp_path, capsys):
    jfstat.write_sfts(sfts, tmp_path / "sfts")
    data = ["track", "--DataFiles", f"{tmp_path}/sfts/*.sft", "--Freq", "49.998", "--FreqBand", "0.004"]
    data += ["--Alpha", str(SKY[0]), "--Delta", str(SKY[1]), "--guard", "0.1", "--assumeSqrtSX", "1e-23"]
    data += ["--orbitasini", "1.40", "--orbitasiniBand", "0.08", "--dorbitasini", "0.02"]
    data += ["--orbitPeriod", str(float(ORBIT.period)), "--orbitTp", str(float(ORBIT.tp)), f"--f1dot={F1DOT}"]
    out, path = tmp_path / "found.ecsv", tmp_path / "path.ecsv"
    cut = ["--segmentDuration", str(LENGTH)]
    assert main([*data, *cut, "--outputFstat", str(out), "--outputTrack", str(path), "--maxJump", "1"]) == 0
    printed = capsys.readouterr().out
    assert "best path of all templates" in printed and "wrote the path of the first" in printed
    found, track = jfstat.read_candidates(out), QTable.read(path)
    assert found["asini"][0].value == pytest.approx(1.44)
    np.testing.assert_allclose(track["freq"].to_value("Hz"), PATH, atol=1.1 * STEP)
    assert track.colnames == ["gps", "freq", "freq_at_gps", "twoF"]
    assert float(np.mean(track["twoF"])) == pytest.approx(float(found["mean_twoF"][0]), rel=1e-4)
    assert main([*data, *cut, "--outputFstat", str(out), "--outputTrack", str(path), "--subband=0.001"]) == 0
    found = jfstat.read_candidates(out)
    assert len(found) == 5 * found.meta["n_subbands"] == 25
    np.testing.assert_allclose(QTable.read(path)["freq"].to_value("Hz"), PATH, atol=1.1 * STEP)
    known = ["--h0", str(float(AMPLITUDE.h0)), "--cosi", str(float(AMPLITUDE.cosi)), "--psi", str(float(AMPLITUDE.psi))]
    assert main([*data, *cut, *known, "--outputFstat", str(out), "--outputTrack", str(path)]) == 0
    found = jfstat.read_candidates(out)
    assert found.meta["amplitude"]["h0"] == float(AMPLITUDE.h0)
    np.testing.assert_allclose(QTable.read(path)["freq"].to_value("Hz"), PATH, atol=1.1 * STEP)
    assert QTable.read(path).meta["amplitude"] == found.meta["amplitude"]
    capsys.readouterr()
    for options, message in [
        ([*cut, "--h0", "1e-25"], "--cosi is missing"),
        ([*cut, "--h0", "1e-25", "--cosi", "2"], "cosi must be"),
        ([], "--segmentDuration is missing"),
        ([*cut, "--subband", "-1"], "subband must be a positive number"),
        ([*cut, "--maxJump", "-1"], "--maxJump: '-1' is not a whole number that is not negative"),
        ([*cut, "--maxJump", "1", "--jumpProbabilities", "1"], "give one"),
        ([*cut, "--jumpProbabilities", "0.5,0.5"], "odd number"),
        ([*cut, "--outputTrack", "x.txt"], ".ecsv or .hdf5"),
        ([*cut, "--NumCandidatesToKeep", "0"], "--logLikelihoodThreshold"),
        ([*cut, "--cohMaxMismatch", "0.1"], "cohMaxMismatch"),
    ]:
        assert main([*data, *options]) == 1
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1


def test_the_command_line_computes_nothing_before_it_can_join_other_processes():
    program = """
from unittest import mock
from jax._src import xla_bridge
from jfstat.commandline import main, work
def mesh(arguments):
    print("computed" if xla_bridge.backends_are_initialized() else "nothing yet")
    raise SystemExit
with mock.patch.object(work, "_mesh", mesh):
    main("track --DataFiles none.sft --Alpha 1 --Delta 0 --Freq 50 --segmentDuration 1e5 --h0 1e-25 --cosi 0".split())
"""
    out = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert out == "nothing yet\n"


def test_the_picture(segments):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, (first, second) = pyplot.subplots(2)
    own = jfstat.track(segments, template())
    jfstat.plots.plot_track(first, own)
    table = jfstat.twoF_by_segment(segments, template())
    jfstat.plots.plot_track(second, own, twoF=table, frequencies=segments.frequencies)
    np.testing.assert_allclose(second.lines[0].get_ydata(), own.frequencies)
    assert len(second.collections) == 1
    pyplot.close(figure)


def noise_tables(n_tables, n_segments, n, seed):
    """Half of 2F in noise at frequencies half the inverse of the data's length apart, by transforms of white noise."""
    random = np.random.default_rng(seed)
    for _ in range(n_tables // 500):
        z = random.standard_normal((500, 2, n_segments, n, 2), np.float32).view(np.complex64)[..., 0]
        spectra = np.fft.fft(z, 2 * n) / np.sqrt(n)
        yield (0.5 * np.sum(np.abs(spectra) ** 2, axis=1)[..., :n]).astype(np.float32)


def loudest_of(tables, transitions):
    best = jax.jit(jax.vmap(lambda table: jfstat.viterbi(table, transitions).log_likelihood))
    return np.concatenate([np.asarray(best(jnp.asarray(table))) for table in tables])


@pytest.mark.ci
def test_the_null_distribution_against_simulated_tables():
    transitions = np.log([0.25, 0.5, 0.25])
    null = jfstat.viterbi_null(8, transitions=transitions, n_frequencies=200)
    values = loudest_of(noise_tables(3000, 8, 200, 1), transitions)
    p = null.false_alarm(values)
    for level in (0.5, 0.1, 0.01):
        # 3 standard deviations of the counts, and 15 per cent of the distribution's own error
        assert abs(np.mean(p < level) - level) < 3 * np.sqrt(level / len(p)) + 0.15 * level
    x = null.threshold(1e-3)
    assert null.false_alarm(x) == pytest.approx(1e-3, rel=1e-2)
    assert null.threshold(1e-12) > null.threshold(1e-6) > x
    assert null.false_alarm(null.threshold(1e-12)) == pytest.approx(1e-12, rel=1e-2)
    assert null.false_alarm(x, 10) == pytest.approx(1e-2, rel=0.02)
    assert null.false_alarm(0.0) == 1 and np.isnan(null.false_alarm(np.nan))
    again = jfstat.viterbi_null(8, transitions=transitions, n_frequencies=200)
    assert again.threshold(1e-3) == x
    other = jfstat.viterbi_null(8, transitions=transitions, n_frequencies=200, seed=1)
    assert other.false_alarm(x) == pytest.approx(1e-3, rel=0.3)


def test_tracks_take_logarithms_of_probabilities(segments):
    """Also those that are traced, or constants of a program; by default those of jumps by a bin."""
    point, shares = template(), np.array([0.25, 0.5, 0.25])
    with pytest.raises(ValueError, match=r"^transitions must be log-probabilities, at most 0.*give np\.log"):
        jfstat.track(segments, point, shares)
    with pytest.raises(ValueError, match=r"^transitions must be log-probabilities, at most 0"):
        jfstat.track(segments, point, [0.0, 1.0, 0.0])
    expected = float(jfstat.track(segments, point, np.log(shares)).log_likelihood)
    traced = jax.jit(lambda x: jfstat.track(segments, point, x).log_likelihood)(jnp.log(shares))
    constant = jax.jit(lambda x: jfstat.track(segments, x, np.log(shares)).log_likelihood)(point)
    assert expected == pytest.approx(float(traced), rel=1e-6) == pytest.approx(float(constant), rel=1e-6)
    usual = jax.jit(lambda x: jfstat.track(segments, x).log_likelihood)(point)
    assert float(usual) == pytest.approx(float(jfstat.track(segments, point, 1).log_likelihood), rel=1e-6)


def test_jumps_wider_than_the_band_are_refused(segments):
    n = segments.layout.n_frequencies
    beyond = np.concatenate([[-np.inf] * n, np.log([0.25, 0.5, 0.25]), [-np.inf] * n])  # never farther than a bin
    assert jfstat.track(segments, template(), n - 1).path.shape == (SEGMENTS,)
    assert jfstat.track(segments, template(), beyond).path.shape == (SEGMENTS,)
    for call in (
        lambda: jfstat.track(segments, template(), n),
        lambda: jfstat.viterbi_null(segments, template(), n),
        lambda: jfstat.plan_search(segments, template(), jfstat.BestPath(n)),
    ):
        with pytest.raises(ValueError, match=rf"^transitions reaches {n} bins, and the band has {n - 1} bins from"):
            call()


def test_a_band_of_one_frequency_has_one_path():
    sfts = jfstat.simulate_sfts("H1", START, 8 * 1800, 99.6, 100.4, sqrt_sx=4e-24, seed=1)
    one = jfstat.prepare(sfts, 100.0, 100.0, segments=4, guard=0.3)
    assert not np.any(jfstat.track(one, jfstat.Doppler(1.0, 0.2, [100.0], START)).path)


def test_nulls_say_how_many_tables_are_done():
    done = []
    null = null_of_paths(4, None, 1, 20, None, advance=done.append)
    assert sum(done) == ALL_TABLES and len(done) > 10
    assert null.threshold(1e-2) == jfstat.viterbi_null(4, n_frequencies=20).threshold(1e-2)


@pytest.mark.ci
def test_searches_show_the_progress_of_false_alarms(segments, monkeypatch, capsys):
    monkeypatch.setattr("jfstat.searching.session.progress.FIRST_LINE", 0.0)
    jfstat.search(segments, template(), jfstat.BestPath(1))
    assert "false alarms: " in (said := capsys.readouterr().err) and "simulated tables" in said
    jfstat.search(segments, template(), jfstat.BestPath(1), progress=False)
    assert capsys.readouterr().err == ""


def test_nulls_take_no_point_that_they_would_ignore_and_no_units():
    point = jfstat.Doppler(1.0, 0.3, [50.0])
    with pytest.raises(ValueError, match=r"^point needs data"):
        jfstat.viterbi_null(8, point, n_frequencies=200)
    null = NullDistribution("log_likelihood", np.linspace(1, 3, 100), np.linspace(0, -6, 100))
    for value in (2.5 * u.m, [2.5, 1.0] * u.s, [2.5 * u.Hz]):
        with pytest.raises(ValueError, match=r"^value must be"):
            null.false_alarm(value)
    with pytest.raises(ValueError, match=r"^false_alarm must be"):
        null.threshold(0.01 * u.m)
    assert null.false_alarm(250 * u.percent) == null.false_alarm(2.5)


@pytest.mark.slow
def test_the_null_distribution_to_one_in_a_thousand():
    null = jfstat.viterbi_null(20, n_frequencies=256)
    p = null.false_alarm(loudest_of(noise_tables(20000, 20, 256, 2), 1))
    assert abs(np.mean(p < 1e-3) * 1e3 - 1) < 3 / np.sqrt(20) + 0.15
    assert abs(np.mean(p < 1e-2) * 1e2 - 1) < 3 / np.sqrt(200) + 0.15


@pytest.mark.slow
def test_the_null_distribution_of_data_with_gaps():
    """The noise of prepared data: antenna patterns correlate values some sidereal frequencies apart."""
    n_segments, n = 10, 256
    times = {
        "H1": [START + 1800 * i for i in range(n_segments * 48) if i % 48 < 40 or (i // 48) % 2],
        "L1": [START + 1800 * i for i in range(n_segments * 48) if (i // 7) % 3],
    }
    sfts = jfstat.simulate_sfts(["H1", "L1"], timestamps=times, fmin=97, fmax=102, sqrt_sx=1e-23, seed=1)
    segments = jfstat.prepare(sfts, 98, 101, segments=n_segments, sqrt_sx=1e-23)
    values = []
    for alpha in np.linspace(0, 6, 8):
        point = jfstat.Doppler(alpha, 0.3, [100.0], START)
        null = jfstat.viterbi_null(segments, point, n_frequencies=n)
        table = 0.5 * np.asarray(jfstat.twoF_by_segment(segments, point))
        tables = table[:, : table.shape[1] // n * n].reshape(n_segments, -1, n).swapaxes(0, 1)
        values.append(null.false_alarm(loudest_of([tables], 1)))
    p = np.concatenate(values)
    for level in (0.5, 0.1, 1e-2, 1e-3):
        assert abs(np.mean(p < level) / level - 1) < 3 / np.sqrt(level * len(p)) + 0.15


@pytest.mark.slow
def test_the_null_distribution_of_a_known_amplitude(sfts):
    amplitude = jfstat.Amplitude(2e-25, 0.3, 0.2)
    quiet = jfstat.simulate_sfts(["H1", "L1"], START, 8 * LENGTH, 97.5, 102.5, sqrt_sx=1e-23, seed=3)
    segments = jfstat.prepare(quiet, 98.5, 101.5, segments=8, sqrt_sx=1e-23)
    point, n = jfstat.Doppler(1.0, 0.3, [100.0], START), 256
    null = jfstat.viterbi_null(segments, point, n_frequencies=n, amplitude=amplitude)
    table = np.asarray(jfstat.log_likelihood_by_segment(segments, point, amplitude))
    tables = table[:, : table.shape[1] // n * n].reshape(8, -1, n).swapaxes(0, 1)
    p = null.false_alarm(loudest_of([tables], 1))
    for level in (0.5, 0.1, 1e-2):
        assert abs(np.mean(p < level) / level - 1) < 3 / np.sqrt(level * len(p)) + 0.15

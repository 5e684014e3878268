"""pulsar_posteriors: simulated pulsars from .par files to limits, beside amplitude_posterior; unit conversions."""

from pathlib import Path

import astropy.units as u
import jax
import numpy as np
import pytest
from astropy import constants
from astropy.table import QTable

import jfstat

START = 1_167_458_304
FILES = Path(__file__).parents[1] / "pulsars"
NAMES = ("J0534+2200", "J0437-4715", "J2145-0750")
NOISE = 4e-24


@pytest.fixture(scope="module")
def pulsars():
    return [jfstat.read_par(FILES / f"{name}.par") for name in NAMES]


@pytest.fixture(scope="module")
def truth(pulsars):
    amplitudes = jfstat.Amplitude([6e-25, 3e-25, 0.0], [0.3, -0.9, 0.0], [0.2, -0.3, 0.0], [1.0, 2.0, 0.0])
    points = [pulsar.doppler(START, START + 2 * 86400) for pulsar in pulsars]
    return points, amplitudes


@pytest.fixture(scope="module")
def sfts(pulsars, truth):
    points, amplitudes = truth
    parts = []
    for k, point in enumerate(points):
        f = float(point.fkdot[0] + point.fkdot[1] * (START - float(point.reftime)))
        signals = [(point, amplitudes[k])] if float(amplitudes[k].h0) else []
        parts.append(
            jfstat.simulate_sfts(
                ["H1", "L1"], START, 2 * 86400, f - 1.4, f + 1.4, sqrt_sx=NOISE, signals=signals, seed=k
            )
        )
    return parts


@pytest.fixture(scope="module")
def found(sfts, pulsars):
    return [
        jfstat.pulsar_posteriors(own, pulsar, sqrt_sx=NOISE, progress=False)
        for own, pulsar in zip(sfts, pulsars, strict=True)
    ]


def test_limits_hold_the_signals(found, truth):
    for k, own in enumerate(found):
        row, posterior = own.table[0], own.posteriors[0]
        h0 = float(truth[1].h0[k])
        assert float(row["h0_limit"]) == pytest.approx(float(posterior.h0_limit(0.95)))
        assert float(row["h0_limit"]) > h0
        if h0:
            assert float(row["log_bstat"]) > 10
            assert float(posterior.h0_quantile(0.001)) < h0 < float(posterior.h0_quantile(0.999))
        assert posterior.samples.h0.shape == (4096,)
    assert float(found[2].table["log_bstat"][0]) < 5
    expected = 10.8 * NOISE / np.sqrt(2 * 2 * 86400)  # on average, where there is no signal
    assert expected / 2 < float(found[2].table["h0_limit"][0]) < 2 * expected
    assert found[0].table.meta["credibility"] == 0.95


def test_a_row_is_the_posterior_of_the_pulsars_template(found, sfts, pulsars):
    point = pulsars[1].doppler(START, START + 2 * 86400)
    f = float(found[1].table["freq"][0].value)
    tables = str(found[1].table["ephemeris"][0])
    data = jfstat.prepare(sfts[1], f - 0.01, f + 0.01, sqrt_sx=NOISE, ephemeris=tables, orbit=point.orbit)
    other = jfstat.amplitude_posterior(jfstat.narrow(data, point), point)
    own = found[1].posteriors[0]
    assert float(own.h0_limit(0.95)) == pytest.approx(float(other.h0_limit(0.95)), rel=5e-3)
    assert float(own.log_bstat) == pytest.approx(float(other.log_bstat), abs=0.1)


def test_the_default_floor_is_nearly_as_good_as_the_known_one(found, sfts, pulsars):
    for own, known, pulsar in zip(sfts, found, pulsars, strict=True):
        other = jfstat.pulsar_posteriors(own, pulsar, progress=False)
        assert other.table.meta["noise"] == "median of 1001 bins"
        # of 96 SFTs of each detector, floors to 5 %: weights to 5 %, and so amplitudes to 0.4 % of their errors
        assert other.table["h0_limit"][0] == pytest.approx(known.table["h0_limit"][0], rel=0.01)


def test_few_bins_have_a_narrower_median(pulsars):
    f = float(pulsars[1].doppler(START, START + 20000).fkdot[0])
    few = jfstat.simulate_sfts(["H1"], START, 20000, f - 0.1, f + 0.1, sqrt_sx=NOISE, seed=1)
    assert few.n_bins == 361
    table = jfstat.pulsar_posteriors(few, pulsars[1], progress=False).table
    assert table.meta["noise"] == "median of 361 bins"
    table = jfstat.pulsar_posteriors(few, pulsars[1], sqrt_sx=jfstat.Noise(), progress=False).table
    assert table.meta["noise"] == "median of 101 bins"


def test_strains_become_ellipticities(found, pulsars):
    table = found[1].table
    distance = (1 / (pulsars[1].parallax * u.rad).to_value(u.arcsec)) * u.pc
    assert table["distance"][0].to_value("kpc") == pytest.approx(distance.to_value("kpc"), rel=1e-6)
    moment, h0 = 1e38 * u.kg * u.m**2, float(table["h0_limit"][0])
    per_strain = constants.c**4 * distance / (4 * np.pi**2 * constants.G * moment * table["freq"][0] ** 2)
    assert float(table["ellipticity_limit"][0]) == pytest.approx(h0 * per_strain.to_value(""), rel=1e-4)
    motion = np.hypot(*pulsars[1].motion) / u.s
    feigned = (table["freq"][0] * motion**2 * distance / constants.c).to("Hz/s")
    own = -table["f1dot"][0] - feigned
    assert 0.2 < own / -table["f1dot"][0] < 0.3  # of J0437-4715, a fast one
    power = 2.5 * constants.G * moment * own / (constants.c**3 * table["freq"][0])
    assert float(table["h0_spin_down"][0]) == pytest.approx((np.sqrt(power) / distance).to_value(""), rel=1e-4)
    assert float(table["spin_down_ratio"][0]) == pytest.approx(h0 / float(table["h0_spin_down"][0]))
    assert np.isnan(jfstat.spin_down_limit(100.0, 1e-12, 1.0))
    slope = jax.grad(lambda h0: jfstat.ellipticity(h0, 100.0, 1.0))(1e-26)
    assert float(slope) == pytest.approx(float(jfstat.ellipticity(1.0, 100.0 * u.Hz, 1000 * u.pc)))


def test_a_distance_counts_where_the_parallax_is_not_positive(tmp_path):
    path = tmp_path / "star.par"
    for entries, parallax in (({"PX": "-0.3 1 0.2", "DIST": "2.0"}, 0.5), ({"PX": "0.4", "DIST": "2.0"}, 0.4)):
        lines = dict(PSRJ="J1", RAJ="01:00:00", DECJ="10:00:00", F0="50", PEPOCH="57700", UNITS="TDB") | entries
        path.write_text("\n".join(f"{name} {x}" for name, x in lines.items()))
        assert (jfstat.read_par(path).parallax * u.rad).to_value("mas") == pytest.approx(parallax, rel=1e-6)


def test_tables_are_written_and_read(found, tmp_path):
    path = tmp_path / "limits.ecsv"
    jfstat.write_candidates(found[1].table, path)
    again = jfstat.read_candidates(path)
    assert again.colnames == found[1].table.colnames
    assert again["h0_limit"][0] == found[1].table["h0_limit"][0]
    assert isinstance(again, QTable)
    assert "J0437-4715" in repr(found[1])


@pytest.mark.ci
def test_priors_by_name(sfts, pulsars):
    narrow = jfstat.AmplitudePrior(h0=jfstat.HalfNormal(1e-26))
    own = jfstat.pulsar_posteriors(
        sfts[2], pulsars[2], {pulsars[2].name: narrow}, sqrt_sx=NOISE, progress=False, credibility=0.5
    )
    assert float(own.table["h0_limit"][0]) == pytest.approx(0.6745e-26, rel=0.02)


def test_the_picture_has_limits_and_expectations(found, sfts):
    from matplotlib.figure import Figure

    from jfstat import plots

    table = found[1].table
    ax = plots.plot_limits(Figure().subplots(), table, psd=jfstat.psd(sfts[1]))
    expected, limit, spin_down = ax.lines
    assert limit.get_ydata()[0] == table["h0_limit"][0]
    assert spin_down.get_ydata()[0] == table["h0_spin_down"][0]
    # two detectors of a floor of 4e-24 for two days
    np.testing.assert_allclose(np.median(expected.get_ydata()), 10.8 * NOISE / np.sqrt(2 * 2 * 86400), rtol=0.05)
    with pytest.raises(ValueError, match="no column h0_limit"):
        plots.plot_limits(Figure().subplots(), table["freq",])


def test_mistakes_are_said(sfts, pulsars):
    with pytest.raises(ValueError, match="prior names J1, which is none of the pulsars: "):
        jfstat.pulsar_posteriors(sfts[0], pulsars[0], {"J1": jfstat.AmplitudePrior()})
    with pytest.raises(TypeError, match=r"prior must be a jfstat\.AmplitudePrior or a jfstat\.DualHarmonicPrior, or a"):
        jfstat.pulsar_posteriors(sfts[0], pulsars[0], 3)
    with pytest.raises(ValueError, match="credibility"):
        jfstat.pulsar_posteriors(sfts[0], pulsars[0], credibility=95)
    with pytest.raises(ValueError, match="distance must be positive"):
        jfstat.ellipticity(1e-26, 100.0, 0.0)


def test_errors_of_the_solution_are_counted(sfts, pulsars, tmp_path):
    text = (FILES / f"{NAMES[0]}.par").read_text()
    f0 = next(line for line in text.split("\n") if line.startswith("F0"))

    def with_error(error):
        path = tmp_path / "star.par"
        path.write_text(text.replace(f0, f"{f0.split()[0]} {f0.split()[1]} 1 {error}"))
        return jfstat.pulsar_posteriors(sfts[0], jfstat.read_par(path), sqrt_sx=NOISE, progress=False).table

    # a shift of the frequency by 2 dF0 loses (2 pi dF0 T)^2 / 3 of rho^2 in data without gaps
    error = 5e-9  # too small to be integrated over
    expected = (2 * np.pi * error * 2 * 86400) ** 2 / 3
    table = with_error(error)
    assert float(table["timing_mismatch"][0]) == pytest.approx(expected, rel=0.03)
    assert "timing_mismatch" in table.colnames

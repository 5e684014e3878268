"""`refine`: candidates off their peak come back at it, with honest errors, whatever else is in the table."""

from __future__ import annotations

from importlib import import_module

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from astropy import units as u
from astropy.table import QTable, Table
from cases import at_frequency, make
from compilations import counted_compilations
from scipy.stats import chi2

import jfstat
from jfstat.candidates.falsealarm import false_alarm
from jfstat.candidates.linerobust import log10_bsgl
from jfstat.candidates.schema import known_column
from jfstat.followup.candidates import usual_names
from jfstat.followup.distinct import distinct
from jfstat.followup.neighbourhood import frequency_shifts
from jfstat.followup.peak import peak_shares
from jfstat.followup.results import Rivals, ending
from jfstat.maths.ball import ball_points, covering_points
from jfstat.maths.newton import (
    CONVERGED,
    LEFT,
    NOWHERE,
    STALLED,
    Limits,
    Maximum,
    evaluated,
    free_steps,
    held,
    maximise,
    trusted_step,
)
from jfstat.signal.parameters import ORBIT_FIELDS
from jfstat.statistic.fstat import turned_twoF

NAMES = ("freq", "f1dot", "alpha", "delta")


@pytest.fixture(scope="module")
def case():
    """Two days of two detectors with gaps, a signal of 2F about 250 in noise."""
    return make(150.0, seed=23, days=2.0, noise=True, h0=3.2e-25, half_band=0.05, guard=0.3)


def table_of(points, **columns):
    """A table of candidates with units, from a stack of templates."""
    fkdot = np.asarray(points.fkdot)
    table = QTable(
        {
            "freq": fkdot[:, 0] * u.Hz,
            "f1dot": fkdot[:, 1] * u.Hz / u.s,
            "alpha": np.asarray(points.alpha) * u.rad,
            "delta": np.asarray(points.delta) * u.rad,
            **columns,
        },
        meta={"reftime": points.reftime},
    )
    return table


def around(case, n, low=0.4, high=0.85, seed=0):
    """n templates in random directions where the given shares of 2F are left, about."""
    coordinates = jfstat.whiten(case.data, case.doppler)
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 4))
    x *= np.sqrt(1 - rng.uniform(low, high, n))[:, None] / np.linalg.norm(x, axis=1)[:, None]
    return jax.vmap(coordinates.point)(jnp.asarray(x))


def plain(column):
    return np.asarray(getattr(column, "value", column))


def at(table, row, reftime):
    """Template of a row."""
    freq, f1dot, alpha, delta = (float(plain(table[name])[row]) for name in NAMES)
    return jfstat.Doppler(alpha, delta, [freq, f1dot], reftime)


@pytest.fixture(scope="module")
def refined(case):
    """Six good candidates and all kinds of bad ones, in one table."""
    good = table_of(around(case, 6), name=["a", "b", "c", "d", "e", "f"])
    rows = [good[0] for _ in range(7)]
    bad = QTable(rows=rows, names=good.colnames)
    bad["freq"][0] = np.nan * u.Hz
    bad["freq"][1] = 170 * u.Hz
    bad["delta"][2] = 2.0 * u.rad
    bad["alpha"][3] = np.inf * u.rad
    bad["freq"][4] += 0.03 * u.Hz  # in noise
    bad["freq"][5] = -5 * u.Hz
    bad["f1dot"][6] = 1e-4 * u.Hz / u.s
    from astropy.table import vstack

    good["freq_error"] = 1 * u.Hz  # what an earlier run wrote
    return jfstat.refine(case.data, vstack([good, bad], metadata_conflicts="silent"), progress=False)


def test_candidates_reach_the_same_peak_above_the_true_point(case, refined):
    true = float(jfstat.twoF(case.data, case.doppler))
    for row in range(6):
        assert refined["converged"][row]
        assert refined["message"][row] == "converged"
        there = float(jfstat.twoF(case.data, at(refined, row, refined.meta["reftime"])))
        assert there == pytest.approx(refined["twoF"][row], rel=1e-6)
        assert there > true - 0.02
        assert there < true + 25  # four parameters gain 4 in the mean
        assert refined["start_twoF"][row] < there
        assert refined["steps"][row] > 3
    assert np.ptp(plain(refined["twoF"])[:6]) < 1e-3
    assert np.ptp(plain(refined["freq"])[:6]) < 0.02 * plain(refined["freq_error"])[0]


@pytest.mark.slow  # the Hessian of the direct sum takes long to compile
def test_errors_are_the_hessians_and_pulls_are_small(case, refined):
    point = at(refined, 0, refined.meta["reftime"])
    flat = jnp.array([point.fkdot[0], point.fkdot[1], point.alpha, point.delta])

    def log_likelihood(x):
        return 0.5 * jfstat.twoF(case.data, jfstat.Doppler(x[2], x[3], x[:2], point.reftime))

    scale = jnp.asarray([plain(refined[f"{name}_error"])[0] for name in NAMES])
    hessian = jax.hessian(lambda y: log_likelihood(flat + y * scale))(jnp.zeros(4))
    covariance = np.linalg.inv(-np.asarray(hessian)) * np.outer(scale, scale)
    own = refined["covariance"][0]
    np.testing.assert_allclose(own / np.outer(scale, scale), covariance / np.outer(scale, scale), atol=2e-3)
    np.testing.assert_allclose(np.sqrt(np.diag(own)), scale, rtol=1e-12)
    truth = np.array([*case.doppler.fkdot[:2], case.doppler.alpha, case.doppler.delta])
    pulls = (np.array(flat) - truth) / np.array(scale)
    assert np.all(abs(pulls) < 4.5)


def test_bad_rows_say_what_happened_and_spoil_none(case, refined):
    messages = [str(m) for m in refined["message"][6:]]
    assert messages[0] == "not refined: freq is not a number"
    assert messages[1].startswith("not refined: outside the data's band by")
    assert messages[2] == "not refined: delta is beyond a pole"
    assert messages[3] == "not refined: alpha is not a number"
    assert messages[5] == "not refined: freq is not positive"
    assert messages[6].startswith("not refined: outside the data's band by")
    for row in (6, 7, 8, 9, 11, 12):
        assert not refined["converged"][row]
        assert np.isnan(refined["twoF"][row])
        assert np.isnan(plain(refined["freq_error"])[row])
        assert refined["steps"][row] == 0
    assert np.isnan(plain(refined["freq"])[6]) and plain(refined["freq"])[7] == 170  # as they were given
    # a maximum of noise is a maximum; the row says what it is worth
    assert refined["converged"][10] and "noise alone reaches this 2F" in messages[4]


@pytest.mark.ci
def test_few_candidates_in_data_of_another_length_compile_next_to_nothing():
    """A candidate waits for compilation, not for the fit, so sizes of programs are few."""

    def refined(days):
        other = make(150.0, seed=24, days=days, noise=True, h0=6e-25, half_band=0.05, guard=0.3)
        found = jfstat.refine(other.data, table_of(around(other, 2, low=0.8)), progress=False)
        assert all(found["converged"])

    refined(1.6)
    with counted_compilations() as compiled:
        refined(2.2)
    own = {
        name for name in compiled for x in ("survey", "focus", "look", "climb", "describe", "mismatches") if x in name
    }
    assert own == {next(name for name in compiled if "focus" in name)}


def test_data_on_the_host_are_refined_too(case):
    table = table_of(around(case, 5))
    expected = jfstat.refine(case.data, table, progress=False)
    found = jfstat.refine(jax.device_get(case.data), table, progress=False)
    for name in NAMES:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-12)
    assert all(found["converged"])


def test_rows_that_fill_a_batch_do_nothing(case, monkeypatch):
    programs, ends = import_module("jfstat.followup.programs"), []

    class Spied:
        def __init__(self, program):
            self.lower, self._program = program.lower, program

        def __call__(self, *arguments):
            ends.append(self._program(*arguments))
            return ends[-1]

    def suited(program, *how):
        own = programs_suited(program, *how)
        return Spied(own) if program is programs.climb else own

    programs_suited = programs.suited
    monkeypatch.setattr(programs, "suited", suited)
    found = jfstat.refine(case.data, table_of(around(case, 5)), progress=False)
    assert all(found["converged"])
    status, steps = np.asarray(ends[0].status[:, 0]), np.asarray(ends[0].steps).sum(axis=1)
    assert status.shape == (8,) and np.all(status[5:] == NOWHERE) and np.all(status[:5] == CONVERGED)
    assert np.all(steps[5:] == 0) and np.all(steps[:5] > 0)


@pytest.mark.slow  # compiles for other parameters
def test_parameters_stay_within_what_templates_can_have(case):
    """A plain declination could climb over the pole, a candidate at the band's edge out of the band."""
    pole = jfstat.Doppler(1.0, np.pi / 2 - 1e-3, case.doppler.fkdot, case.doppler.reftime)
    table = jfstat.refine(case.data, pole, fit=jfstat.Fit(["delta"]), progress=False)
    assert abs(plain(table["delta"])[0]) <= np.pi / 2
    edge = float(case.data.band.pass_high + case.data.band.slack) / (1 + 1.06e-4)
    found = jfstat.Doppler(1.0, 0.5, [edge - 1e-7, 0.0], case.doppler.reftime)
    table = jfstat.refine(case.data, found, progress=False)
    if table["converged"][0]:
        jfstat.twoF(case.data, at(table, 0, table.meta["reftime"]))  # or it would raise
    else:
        assert "left the data's band" in table["message"][0]


@pytest.mark.slow  # compiles for other parameters
def test_bounds_narrower_than_any_trial_step(case):
    f = float(case.doppler.fkdot[0])
    fkdot = case.doppler.fkdot + jnp.array([2e-6, 0.0])
    off = jfstat.Doppler(case.doppler.alpha, case.doppler.delta, fkdot, case.doppler.reftime)
    limits = (f + 2e-6 - 2e-10, f + 2e-6 + 2e-10)
    table = jfstat.refine(case.data, off, fit=jfstat.Fit(["freq", "f1dot"], {"freq": limits}), progress=False)
    assert limits[0] - 1e-12 <= plain(table["freq"])[0] <= limits[1] + 1e-12


def test_errors_at_a_bound_are_conditional():
    """Two correlated parameters, one at its bound: the other's error is the conditional one."""
    correlated = np.array([[1.0, 0.95], [0.95, 1.0]]) * 0.07**2
    precision = jnp.asarray(np.linalg.inv(correlated))
    matrix, which = jnp.eye(2), jnp.array([True, False])
    kept, (_, hessian) = free_steps(matrix, which), held(jnp.zeros(2), -2 * precision, matrix, which)
    size, axes = jnp.linalg.eigh(-0.5 * hessian)
    spread = kept @ axes / jnp.sqrt(size)
    np.testing.assert_allclose((spread @ spread.T)[1, 1], 1 / precision[1, 1], rtol=1e-9)


def test_the_table_has_units_meta_and_the_users_columns(case, refined):
    assert plain(refined["freq_error"])[0] < 1e-3  # its own, not the one that was there
    assert refined["freq"].unit == u.Hz and refined["f1dot_error"].unit == u.Hz / u.s
    assert list(refined["name"][:6]) == ["a", "b", "c", "d", "e", "f"]
    assert refined.meta["parameters"] == list(NAMES)
    assert refined.meta["reftime"] == case.doppler.reftime
    assert refined.meta["detectors"] == list(case.data.detectors)
    per = [name for name in refined.colnames if name.startswith("twoF_")]
    assert per == [f"twoF_{d}" for d in case.data.detectors]


@pytest.mark.parametrize("suffix", [".ecsv", ".hdf5", ".txt"])
def test_refined_tables_survive_files(refined, tmp_path, suffix):
    path = jfstat.write_candidates(refined[:6], tmp_path / f"refined{suffix}")
    back = jfstat.read_candidates(path)
    np.testing.assert_array_equal(plain(back["freq"]), plain(refined["freq"])[:6])
    if suffix != ".txt":
        np.testing.assert_array_equal(back["covariance"], refined["covariance"][:6])
        assert [str(m) for m in back["message"]] == ["converged"] * 6


def test_tables_without_units_masked_or_with_few_columns(case, refined):
    points = around(case, 6)
    bare = Table({"freq": np.asarray(points.fkdot[:, 0]), "alpha": points.alpha, "delta": points.delta}, masked=True)
    bare["f1dot"] = np.asarray(points.fkdot[:, 1])
    bare["asini"] = 0.0  # no orbit, whatever the period
    bare["period"] = bare["tp"] = 0.0
    bare["freq"].mask[1] = True
    bare.meta["reftime"] = case.doppler.reftime
    again = jfstat.refine(case.data, bare, progress=False)
    assert again.meta["parameters"] == list(NAMES)
    assert plain(again["period"])[0] == 0.0
    assert "not a number" in again["message"][1]
    np.testing.assert_allclose(again["twoF"][[0, 2, 3, 4, 5]], plain(refined["twoF"])[0], rtol=1e-5)


@pytest.mark.slow  # compiles for other parameters
def test_fixed_parameters_stay_and_templates_do_for_a_table(case):
    points = around(case, 3)
    fixed = jfstat.refine(case.data, points, fit=jfstat.Fit(["freq", "f1dot"], mismatch=0, bins=0), progress=False)
    np.testing.assert_array_equal(plain(fixed["alpha"]), np.mod(points.alpha, 2 * np.pi))
    np.testing.assert_array_equal(plain(fixed["delta"]), points.delta)
    assert fixed["covariance"].shape == (3, 2, 2)
    assert "alpha_error" not in fixed.colnames
    assert np.all(fixed["twoF"] > fixed["start_twoF"])


@pytest.mark.slow
def test_bounds_hold_and_are_named(case):
    one = jax.tree.map(lambda x: x[:1], around(case, 3))
    names = ["freq", "f1dot"]
    alone = jfstat.refine(case.data, one, fit=jfstat.Fit(names, mismatch=0, bins=0), progress=False)
    best = float(plain(alone["freq"])[0])
    low, high = best - 1e-3, best - 2e-7
    starts = high + jnp.array([-1e-6, 0.0, 1e-3])  # inside, on the bound, outside
    fkdot = jnp.stack([starts, jnp.tile(one.fkdot[:, 1], 3)], axis=1)
    inside = jfstat.Doppler(jnp.tile(one.alpha, 3), jnp.tile(one.delta, 3), fkdot, one.reftime)
    bounded = jfstat.refine(case.data, inside, fit=jfstat.Fit(names, {"freq": (low * u.Hz, high)}), progress=False)
    for row in (0, 1):
        assert bounded["converged"][row]
        assert bounded["message"][row] == "converged, with freq at the bound"
        assert plain(bounded["freq"])[row] == pytest.approx(high, abs=1e-12)
        assert np.isnan(plain(bounded["freq_error"])[row]) and np.isfinite(plain(bounded["f1dot_error"])[row])
    assert bounded["message"][2] == "not refined: freq starts outside its bounds"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(parameters=["freq", "spin"]), "parameters has 'spin'"),
        (dict(parameters=[]), "parameters is empty"),
        (dict(bounds={"delta": (0.3, 0.1)}), "bounds of delta must be finite and low < high"),
        (dict(bounds={"asini": (0, 1)}), "bounds has 'asini'"),
        (dict(bounds={"freq": 3.0}), "bounds of freq must be"),
        (dict(bounds={"freq": (1 * u.s, 2 * u.s)}), "bounds of freq"),
        (dict(mismatch=-1.0), "mismatch must be a number from 0 on, not -1.0"),
        (dict(mismatch=None), "mismatch must be a number from 0 on"),
        (dict(bins=np.inf), "bins must be None or a number from 0 on"),
    ],
)
def test_mistakes_are_one_sentence(case, options, message):
    with pytest.raises(ValueError, match=message) as error:
        jfstat.refine(case.data, case.doppler, fit=jfstat.Fit(**options), progress=False)
    assert "\n" not in str(error.value)


def test_what_is_no_table_is_refused(case):
    with pytest.raises(TypeError, match="found must be a table"):
        jfstat.refine(case.data, [1, 2, 3])
    with pytest.raises(ValueError, match="found lacks the column 'delta'"):
        jfstat.refine(case.data, Table({"freq": [1.0], "alpha": [1.0]}))
    with pytest.raises(ValueError, match="not in Hz"):
        jfstat.refine(case.data, QTable({"freq": [1.0] * u.s, "alpha": [1.0], "delta": [0.0]}))
    assert len(jfstat.refine(case.data, table_of(around(case, 2))[:0], progress=False)) == 0


# the optimiser alone


def test_newton_climbs_hills_and_says_how_it_ended():
    def hill(x):
        return 50 * jnp.exp(-jnp.sum(x**2) - 0.3 * x[0] * x[1])

    top = maximise(hill, jnp.array([0.9, -0.8]))
    assert top.status == CONVERGED and abs(top.value - 50) < 1e-6 and jnp.all(abs(top.x) < 1e-4)
    # beyond the inflection the Hessian is not negative: the region of trust leads on
    assert maximise(hill, jnp.array([1.9, 0.0])).status == CONVERGED
    assert maximise(lambda x: hill(x) * jnp.nan, jnp.zeros(2)).status == NOWHERE
    # a slope into where it is not defined
    assert maximise(lambda x: jnp.where(x[0] < 0.5, 10 * x[0], jnp.nan) + 0 * x[1], jnp.zeros(2)).status == LEFT
    assert maximise(lambda x: -jnp.sqrt(jnp.sum(x**2) + 1e-30), jnp.array([0.3, 0.2])).status in (CONVERGED, STALLED)


def test_all_derivatives_in_one_pass():
    def hill(x):
        return jnp.exp(x[0] * x[1] - 0.5 * x[2] ** 2) * jnp.cos(x[0] + 2 * x[2])

    x = jnp.array([0.4, -0.3, 0.7])
    at = evaluated(hill, x)
    np.testing.assert_allclose(at.value, hill(x), rtol=1e-14)
    np.testing.assert_allclose(at.gradient, jax.grad(hill)(x), rtol=1e-12)
    np.testing.assert_allclose(at.hessian, jax.hessian(hill)(x), rtol=1e-12)
    alone = evaluated(lambda x: jnp.sin(x[0]), jnp.array([0.3]))
    np.testing.assert_allclose(alone.hessian, [[-np.sin(0.3)]], rtol=1e-12)
    assert np.isnan(evaluated(lambda x: hill(x) * jnp.nan, x).value)


def test_newton_keeps_within_limits_and_finds_the_best_there():
    def hill(x):
        return -jnp.sum((x - jnp.array([1.0, 2.0])) ** 2) - (x[0] - 1) * (x[1] - 2)

    limits = Limits(jnp.array([[1.0, 0.0], [0.0, 1.0]]), jnp.array([-1.0, -1.0]), jnp.array([0.5, 5.0]))
    top = maximise(hill, jnp.array([-0.5, -0.5]), limits)
    assert top.status == CONVERGED
    np.testing.assert_allclose(top.x, [0.5, 2.25], atol=1e-6)  # d/dx1 = 0 on the line x0 = 1/2
    corner = Limits(limits.matrix, limits.low, jnp.array([0.5, 1.0]))
    np.testing.assert_allclose(maximise(hill, jnp.array([0.0, 0.0]), corner).x, [0.5, 1.0], atol=1e-9)
    np.testing.assert_allclose(maximise(hill, jnp.array([0.5, 1.0]), corner).x, [0.5, 1.0], atol=1e-9)


def test_two_peaks_share_the_probability_by_height_and_width():
    """Two Gaussians of equal weight: a half each, and second moments that span both."""
    values_, x = jnp.array([60.0, 60.0, 60.0]), jnp.array([[0.0, 0.0], [0.5, 0.0], [1e-5, 0.0]])
    hessian = -2 * 60 * jnp.stack([jnp.eye(2)] * 3)
    flat = jnp.zeros(3, jnp.int32)
    climbs = Maximum(x, values_, jnp.zeros((3, 2)), hessian, flat, flat + CONVERGED)
    shares = peak_shares(climbs)
    np.testing.assert_allclose(shares, [0.5, 0.5, 0.0], atol=1e-12)  # the third is the first once more
    lower = peak_shares(climbs._replace(value=values_ - jnp.array([0.0, 4.0, 0.0])))
    np.testing.assert_allclose(lower[1] / lower[0], np.exp(-2), rtol=1e-9)
    wider = peak_shares(climbs._replace(hessian=hessian.at[0].mul(4.0)))
    np.testing.assert_allclose(wider[:2], [0.5, 0.5])  # a wider one that is lower than none gets no more than the first


def test_a_trusted_step_is_the_best_in_its_ball():
    rng = np.random.default_rng(5)
    for _ in range(20):
        matrix = rng.normal(size=(3, 3))
        gradient, hessian = jnp.asarray(rng.normal(size=3)), jnp.asarray(matrix + matrix.T)
        step, gain = trusted_step(gradient, hessian, jnp.asarray(0.7))
        assert jnp.linalg.norm(step) <= 0.7 * (1 + 1e-6)
        tries = rng.normal(size=(4000, 3))
        tries *= 0.7 * rng.uniform(size=(4000, 1)) ** (1 / 3) / np.linalg.norm(tries, axis=1, keepdims=True)
        others = tries @ gradient + 0.5 * np.einsum("ni,ij,nj->n", tries, hessian, tries)
        assert gain >= others.max() - 1e-9


def test_trial_points_fill_the_ball_from_its_centre():
    points = ball_points(4, 128, 1.6)
    assert points.shape == (128, 4) and not points[0].any()
    r = np.linalg.norm(points[1:], axis=1)
    assert r.max() < 1.6 and abs(np.median(r) - 1.6 * 0.5**0.25) < 0.05
    assert abs(points.mean(axis=0)).max() < 0.1


@pytest.mark.parametrize(("p", "radius", "distance"), [(1, 1.0, 0.5), (3, 1.0, 0.3**0.5), (4, 1.3, 0.5), (6, 1.0, 0.8)])
def test_trial_points_cover_the_ball(p, radius, distance):
    points = covering_points(p, radius, distance)
    assert not points[0].any()
    assert np.all(np.diff(np.linalg.norm(points, axis=1)) >= -1e-12)
    inside = ball_points(p, 4096, radius)
    nearest = np.min(np.linalg.norm(inside[:, None] - points, axis=2), axis=1)
    assert 0.8 * distance < nearest.max() <= distance * (1 + 1e-9)  # and no denser than need be


def test_without_a_size_or_dimensions_there_is_the_candidate_alone():
    np.testing.assert_array_equal(covering_points(3, 0.0, 0.5), np.zeros((1, 3)))
    assert covering_points(0, 1.0, 0.5).shape == (1, 0)
    assert covering_points(30, 0.0, 0.5).shape == (1, 30)  # 3^30 faces of a box would take for ever
    np.testing.assert_array_equal(frequency_shifts(0.0, 1e5), [0.0])
    shifts = frequency_shifts(4.0, 1e5)
    assert shifts[len(shifts) // 2] == 0 and -shifts[0] == shifts[-1] == pytest.approx(4e-5)


def test_columns_of_zeros_are_not_fitted():
    columns = {name: np.zeros(2) for name in ("freq", "f1dot", "f2dot", "f3dot", "alpha", "delta", *ORBIT_FIELDS)}
    assert usual_names(columns) == NAMES
    columns["f2dot"] = np.array([0.0, 1e-18])
    columns["asini"] = np.array([0.0, 1.0])
    assert usual_names(columns) == ("freq", "f1dot", "f2dot", "alpha", "delta", "asini", "period", "tp")
    assert usual_names(columns, ("freq", "tp", "ecc")) == ("freq", "tp")


@pytest.fixture(scope="module")
def targeted(case):
    """Candidates of a search at a known position, and the same refined; the columns hold values that are not theirs."""
    fdots = case.doppler.fkdot[1] + jnp.array([-1e-11, 0.0, 1e-11])
    point = case.doppler
    bank = jfstat.template_bank(point.alpha, point.delta, list(np.asarray(fdots)), reftime=point.reftime)
    bounds = {"f1dot": (float(point.fkdot[1]) - 5e-12, 0.0)}  # the first template lies outside
    found = jfstat.search(
        case.data,
        bank,
        top=3,
        progress=False,
        keep=jfstat.Keep(bounds=bounds),
        details=jfstat.Details(line_prior=jfstat.LinePrior(fstar0=2.0, olgx=[0.3, 0.4])),
    )
    found["name"] = ["a", "b", "c"]
    return found, jfstat.refine(case.data, found, progress=False)


@pytest.mark.ci
def test_candidates_on_one_peak_merge(case, refined, targeted):
    found, _ = targeted
    merged = jfstat.refine(case.data, found, merge=True, progress=False)
    assert len(merged) == 1 and merged["n_merged"][0] == 3
    table = distinct(refined)
    best = int(np.argmax(refined["twoF"][:6]))
    assert table["n_merged"][0] == 6 and table["twoF"][0] == refined["twoF"][best]
    assert list(table["message"][1:]) == list(refined["message"][6:])  # each of the bad ones has its row
    seam = refined[:2].copy()
    seam["alpha"] = [1e-7, 2 * np.pi - 1e-7] * u.rad
    assert len(distinct(seam)) == 1
    seam["alpha"] = [1.0, 1.0 + 3 * plain(seam["alpha_error"])[0]] * u.rad
    assert len(distinct(seam)) == 2


@pytest.mark.ci
def test_what_the_search_held_stays(case, targeted):
    found, refined = targeted
    assert found.meta["parameters"] == refined.meta["parameters"] == ["freq", "f1dot"]
    assert np.ptp(plain(refined["alpha"])) == np.ptp(plain(refined["delta"])) == 0
    assert plain(refined["alpha"])[0] == case.doppler.alpha and plain(refined["delta"])[0] == case.doppler.delta
    assert "alpha_error" not in refined.colnames
    assert list(found["outside"]) == list(found["template"] == 0)
    low = found.meta["bounds"]["f1dot"][0]
    np.testing.assert_array_equal(refined["outside"], plain(refined["f1dot"]) < low)
    assert refined["converged"].all() and refined.meta["n_twoF"] == found.meta["n_twoF"]
    assert np.ptp(plain(refined["freq"])) < 1e-9
    assert abs(plain(refined["freq"])[0] - case.doppler.fkdot[0]) < 5 * plain(refined["freq_error"])[0] < 2e-6


def test_tables_of_other_detectors_and_stacked_tables(case, targeted):
    found, refined = targeted
    other = found.copy()
    other.meta["detectors"] = ["H1", "V1"]  # whose odds are not those of L1
    again = jfstat.refine(case.data, other, progress=False)
    assert again.meta["oLGX"] is None and refined.meta["oLGX"] == [0.3, 0.4]
    other.meta["detectors"], other.meta["oLGX"] = ["L1", "H1"], [0.4, 0.3]
    again = jfstat.refine(case.data, other, progress=False)
    np.testing.assert_array_equal(again["log10BSGL"], refined["log10BSGL"])
    other.meta["oLGX"] = [0.3, 0.4] * 2  # as astropy's vstack makes
    with pytest.raises(ValueError, match="meta of several tables in one"):
        jfstat.refine(case.data, other, progress=False)


def test_every_column_belongs_to_the_refined_template(case, targeted):
    found, refined = targeted
    assert set(found.colnames) <= set(refined.colnames)
    assert all(known_column(name) for name in refined.colnames)
    for row in range(len(refined)):
        point = at(refined, row, refined.meta["reftime"])
        there, estimate = jfstat.fstat(case.data, point), jfstat.estimate_amplitude(case.data, point)
        assert refined["twoF"][row] == pytest.approx(float(there.twoF), rel=2e-6)
        own = [refined[f"twoF_{name}"][row] for name in case.data.detectors]
        np.testing.assert_allclose(own, there.twoF_per_detector, rtol=1e-5)
        robust = log10_bsgl(refined["twoF"][row], own, jfstat.LinePrior(2.0, [0.3, 0.4]))
        assert refined["log10BSGL"][row] == pytest.approx(float(robust), rel=1e-12)
        for name in ("h0", "cosi", "psi", "phi0"):
            error = float(getattr(estimate.errors, name))
            assert plain(refined[name])[row] == pytest.approx(
                float(getattr(estimate.amplitude, name)), abs=1e-3 * error
            )
            assert plain(refined[f"{name}_error"])[row] == pytest.approx(error, rel=1e-3)
    assert list(refined["name"]) == ["a", "b", "c"] and list(refined["template"]) == list(found["template"])
    changed = ("twoF", "twoF_H1", "log10BSGL", "h0", "h0_error", "phi0")
    assert all(np.all(plain(refined[name]) != plain(found[name])) for name in changed)


def test_endings_are_sentences():
    assert ending(CONVERGED, 60.0, 1e-9, True) == "converged"
    assert "noise alone reaches this 2F with a chance of 0.3" in ending(CONVERGED, 20.0, 0.3, True)
    assert "too flat" in ending(CONVERGED, 60.0, 1e-9, False)
    assert "with delta at the bound" in ending(CONVERGED, 60.0, 1e-9, False, held=["delta"])
    assert "other peaks nearby hold 0.3 of" in ending(CONVERGED, 60.0, 1e-9, True, Rivals(0.7))
    higher = ending(CONVERGED, 60.0, 1e-9, True, Rivals(1.0, 100.25, 71.0))
    assert higher == "converged, but not to the highest peak nearby: 2F is 71.0 at 100.25000000 Hz"
    assert "almost as high, 58.0, at 100.25" in ending(CONVERGED, 60.0, 1e-9, True, Rivals(1.0, 100.25, 58.0))
    assert ending(LEFT, np.nan, np.nan, False).startswith("not converged")
    assert false_alarm(0.0, 3) == 1.0
    assert false_alarm(60.0, 1e6) == pytest.approx(1e6 * chi2.sf(60, 4), rel=1e-3)


def test_probability_of_a_peak_among_others():
    assert Rivals().peak_probability(50.0) == 1.0
    assert Rivals(0.7).peak_probability(50.0) == pytest.approx(0.7)
    assert Rivals(1.0, 100.0, 50.0).peak_probability(50.0) == 0.5
    assert Rivals(0.5, 100.0, 50.0).peak_probability(50.0) == pytest.approx(1 / 3)
    assert Rivals(1.0, 100.0, 5000.0).peak_probability(50.0) < 1e-300


def test_two_f_at_other_frequencies_is_that_of_shifted_templates(case):
    near = jfstat.narrow(case.data, case.doppler)
    shifts = np.linspace(-2, 2, 48) * float(near.reach)
    found = np.asarray(turned_twoF(near, case.doppler, near.turns(jnp.asarray(shifts))))
    # the detectors move by 1e-4 of the speed of light, which shifts differ by
    shifted = [at_frequency(case.doppler, case.doppler.fkdot[0] + x) for x in shifts]
    points = jax.tree.map(lambda *x: jnp.stack(x), *shifted)
    exact = np.asarray(jax.vmap(jfstat.twoF, (None, 0))(case.data, points))
    inside = abs(shifts) < 0.9 * float(near.reach)
    assert np.max(abs(found - exact)[inside]) < 0.02 * np.sqrt(exact.max())
    assert np.max(abs(found - exact)) < 0.1 * np.sqrt(exact.max())


@pytest.mark.slow
def test_rows_tell_whether_a_higher_peak_is_near():
    """10 d, starts at wrong sky positions with the right frequency: the signal's peak is many bins away."""
    start = 1_167_458_304
    signal = jfstat.Doppler(1.0, 0.3, [100.05, -1e-10], start)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], start, 10 * 86400, fmin=99.0, fmax=101.1, sqrt_sx=2e-23, seed=5,
        signals=[(signal, jfstat.Amplitude(6e-25, 0.3, 0.2, 1.0))],
    )  # fmt: skip
    data = jfstat.prepare(sfts, 99.9, 100.2, fdots=[(-2e-9, 2e-9)], filters=False)
    true = float(jfstat.twoF(data, signal))
    off = np.repeat([0.0, 0.003, 0.006, 0.03, 0.1], 3)
    turn = np.random.default_rng(1).uniform(0, 2 * np.pi, len(off))
    points = jfstat.Doppler(
        1.0 + off * np.cos(turn) / np.cos(0.3), 0.3 + off * np.sin(turn), np.tile([100.05, -1e-10], (15, 1)), start
    )
    for bins in (None, 64):
        found = jfstat.refine(data, points, fit=jfstat.Fit(bins=bins), progress=False)
        right = found["twoF"] > true - 0.02
        sure = np.array([str(message) == "converged" for message in found["message"]])
        assert found["converged"].all() and right[:3].all() and sure[:3].all()
        assert not np.any(sure & ~right)  # each wrong row says that it is
        assert np.all(found["peak_probability"][right] > 0.99)
        assert np.all((found["peak_probability"] < 0.5) | (found["noise_chance"] > 1e-3) | right)
    assert right[:9].all()  # it is found from 0.006 rad away, which is 50 bins


def reach(case, n, seed, losses=(0.2, 0.75)):
    """n starts that lost such parts of the signal's rho^2, at offsets within the metric's unit ball that are added to
    right ascension, declination, frequency and f1dot as they are; 2F at the signal's parameters."""
    point = case.doppler
    g = np.asarray(jfstat.metric(case.data, point, NAMES))
    scale = 1 / np.sqrt(np.diag(g))
    size, axes = np.linalg.eigh(g * np.outer(scale, scale))
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(64 * n, 4))
    x *= (rng.uniform(size=len(x)) ** 0.25 / np.linalg.norm(x, axis=1))[:, None]
    off = x @ (scale[:, None] * axes / np.sqrt(np.maximum(size, 1e-12))).T
    off = off[(abs(float(point.delta) + off[:, 3]) < 1.5) & (abs(off[:, 0]) < 0.02) & (abs(off[:, 1]) < 1e-8)]
    points = jfstat.Doppler(point.alpha + off[:, 2], point.delta + off[:, 3], point.fkdot + off[:, :2], point.reftime)
    lost = jax.jit(jax.vmap(lambda other: jfstat.mismatch(case.data, point, other, amplitude=case.amplitude)))(points)
    chosen = np.flatnonzero((np.asarray(lost) > losses[0]) & (np.asarray(lost) < losses[1]))[:n]
    assert len(chosen) == n
    return jax.tree.map(lambda x: x[chosen] if np.ndim(x) else x, points)


@pytest.mark.ci
def test_starts_within_the_metrics_unit_ball_reach_the_peak(case):
    """The sky bends: most of these lie several bins off in frequency, on side lobes of the daily modulation."""
    found = jfstat.refine(case.data, reach(case, 6, seed=5), progress=False)
    assert np.all(found["twoF"] > float(jfstat.twoF(case.data, case.doppler)) - 0.02)
    assert np.ptp(plain(found["twoF"])) < 1e-3
    assert np.all(plain(found["start_mismatch"]) > 0.1) and np.all(plain(found["start_mismatch"]) < 0.9)


@pytest.mark.slow
@pytest.mark.parametrize(("f", "days", "h0"), [(1150.0, 0.5, 6e-25), (90.0, 4.0, 2.5e-25), (700.0, 1.5, 4e-25)])
def test_starts_that_lost_three_quarters_reach_the_peak(f, days, h0):
    case = make(f, seed=int(f), days=days, noise=True, h0=h0, half_band=0.05, guard=0.3)
    found = jfstat.refine(case.data, reach(case, 32, seed=6, losses=(0.5, 0.75)), progress=False)
    right = plain(found["twoF"]) > float(jfstat.twoF(case.data, case.doppler)) - 0.02
    assert np.mean(right) >= 0.98
    assert all(message != "converged" for message in found["message"][~right])


@pytest.mark.slow
def test_a_louder_signal_nearby_is_no_word_of_this_one():
    """A candidate at a weak signal, a strong one 6 bins away: the row that ends there says so."""
    case = make(150.0, seed=23, days=2.0, noise=True, h0=3.2e-25, half_band=0.05, guard=0.3)
    off = at_frequency(case.doppler, float(case.doppler.fkdot[0]) + 6.37 / float(case.data.tspan))
    row = jfstat.refine(case.data, off, fit=jfstat.Fit(bins=8), progress=False)[0]
    assert row["twoF"] > float(jfstat.twoF(case.data, case.doppler)) - 0.02
    there = jfstat.mismatch(case.data, at(row.table, 0, row.table.meta["reftime"]), off)
    assert row["start_mismatch"] == pytest.approx(float(there), abs=1e-6)
    assert ("it may be another signal" in row["message"]) == (row["start_mismatch"] > 0.9)


BINARY = jfstat.Orbit(asini=0.8, period=30000.0, tp=1.1e9 + 1000.0, ecc=0.1, argp=0.6)


@pytest.mark.slow
def test_binary_candidates_reach_their_peak():
    case = make(200.0, seed=31, days=2.0, noise=True, h0=4e-25, orbit=BINARY, reach=0.2, half_band=0.05)
    coordinates = jfstat.whiten(case.data, case.doppler)
    rng = np.random.default_rng(3)
    x = rng.normal(size=(8, 7))
    x *= 0.7 / np.linalg.norm(x, axis=1)[:, None]
    found = jfstat.refine(case.data, jax.vmap(coordinates.point)(jnp.asarray(x)), progress=False)
    true = float(jfstat.twoF(case.data, case.doppler))
    assert found.meta["parameters"] == ["freq", "f1dot", "alpha", "delta", "asini", "period", "tp"]
    assert np.all(found["converged"])
    assert np.all(found["twoF"] > true - 0.02)
    for name in ("asini", "period", "tp"):
        pull = (plain(found[name]) - float(getattr(case.doppler.orbit, name))) / plain(found[f"{name}_error"])
        assert np.all(abs(pull) < 4.5)
    np.testing.assert_array_equal(plain(found["ecc"]), 0.1)


@pytest.mark.slow
def test_isolated_candidates_among_binaries():
    case = make(200.0, seed=31, days=1.0, noise=True, h0=4e-25, orbit=BINARY, reach=0.2, half_band=0.05)
    table = table_of(jax.tree.map(lambda x: jnp.stack([x, x]), case.doppler))
    table["asini"], table["period"], table["tp"] = [0.8, 0.0] * u.s, [30000.0, 0.0] * u.s, [1.1e9 + 1000, 0.0] * u.s
    table["ecc"], table["argp"] = [0.1, 0.0], [0.6, 0.0] * u.rad
    found = jfstat.refine(case.data, table, progress=False)
    assert found["converged"][0] and np.isfinite(plain(found["asini_error"])[0])
    assert found["converged"][1] and np.isnan(plain(found["asini_error"])[1]) and plain(found["asini"])[1] == 0
    assert np.isfinite(plain(found["freq_error"])[1])
    assert found["twoF"][0] > found["twoF"][1] + 20


@pytest.mark.slow
@pytest.mark.parametrize("options", [dict(mismatch=0, bins=0), {}])
def test_refined_noise_says_so(options):
    case = make(150.0, seed=41, days=1.0, noise=True, h0=0.0, half_band=0.05, guard=0.3)
    rng = np.random.default_rng(8)
    n = 128
    points = jfstat.Doppler(
        rng.uniform(0, 6.28, n),
        np.arcsin(rng.uniform(-1, 1, n)),
        np.stack([150 + rng.uniform(-0.04, 0.04, n), np.full(n, -1e-9)], axis=1),
        case.doppler.reftime,
    )
    found = jfstat.refine(case.data, points, fit=jfstat.Fit(**options), progress=False)
    quiet = np.array([message == "converged" for message in found["message"]])
    assert np.mean(quiet) <= 0.03

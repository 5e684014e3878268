"""Pictures show what they are given."""

import numpy as np
import pytest
from astropy.table import QTable
from matplotlib.figure import Figure

import jfstat
from jfstat import plots
from jfstat.statistic.transients import TransientMap

START = 1167458304


def axes(*shape):
    return Figure().subplots(*shape)


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    found = QTable({name: rng.uniform(size=30) for name in ("freq", "alpha", "delta")})
    for name, unit in (("freq", "Hz"), ("alpha", "rad"), ("delta", "rad")):
        found[name].unit = unit
    found["twoF"] = rng.chisquare(4, 30)
    found.meta |= {
        "threshold": 3.0,
        "loudest_per_subband": {"start": [0.0, 0.5], "stop": [0.5, 1.0], "twoF": [9.0, 12.0]},
    }
    return found


def test_candidates_over_one_and_two_parameters(table):
    ax = plots.plot_search(axes(), table)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), table["twoF"])
    assert ax.get_xlabel() == "freq (Hz)"
    sky = plots.plot_search(axes(), table, x="alpha", y="delta")
    shown = sky.collections[0]
    assert np.all(np.diff(shown.get_array()) >= 0)  # the loudest is drawn last
    assert sky.get_xlim()[0] > sky.get_xlim()[1]
    with pytest.raises(ValueError, match="no column 'f9dot'"):
        plots.plot_search(axes(), table, x="f9dot")
    with pytest.raises(ValueError, match="neither"):
        plots.plot_search(axes(), table["freq", "alpha"])


def test_loudest_of_sub_bands(table):
    ax = plots.plot_loudest(axes(), table)
    segments = ax.collections[0].get_segments()
    assert [tuple(map(tuple, x)) for x in segments] == [((0, 9), (0.5, 9)), ((0.5, 12), (1, 12))]
    table.meta.clear()
    with pytest.raises(ValueError, match="loudest_per_subband"):
        plots.plot_loudest(axes(), table)


def test_a_background_with_thresholds_and_candidates():
    maxima = np.random.default_rng(1).gumbel(25, 2, (30, 2))
    maxima[:, 1] = np.where(np.arange(30) < 6, 100, maxima[:, 1])
    columns = {"fmin": np.tile([0.0, 1.0], 30), "fmax": np.tile([1.0, 2.0], 30), "twoF": maxima.ravel()}
    background = QTable(columns, meta={"statistic": "TwoF", "positions": 30})
    found = QTable({"freq": [0.3], "twoF": [50.0]})
    ax = plots.plot_background(axes(), background, found)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), maxima.ravel())
    assert ax.lines[1].get_ydata().tolist() == [50.0]
    (only,) = ax.collections[0].get_segments()  # the other sub-band has no threshold of 1 %
    assert only[:, 0].tolist() == [0, 1] and 30 < only[0, 1] < 50


def test_the_largest_of_a_transient_map_is_marked():
    twoF = np.zeros((4, 3))
    twoF[2, 1] = 50.0
    result = TransientMap(twoF, START + 86400.0 * np.arange(4), 86400.0 * np.arange(1, 4), "rectangular", 1.0)
    ax = plots.plot_transient_map(axes(), result, injected=(START + 86400, 86400))
    assert [float(x[0]) for x in ax.lines[0].get_data()] == [2.0, 2.0]
    assert ax.get_legend().get_texts()[0].get_text() == "largest: 50.0"


def test_coverage_has_a_bar_for_each_sft():
    seen = jfstat.observation(["H1", "L1"], timestamps={"H1": START + 1800 * np.arange(5), "L1": [START, START + 7200]})
    ax = plots.plot_coverage(axes(), seen)
    assert [len(bars.get_paths()) for bars in ax.collections] == [5, 2]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["H1", "L1"]


def test_corner_has_its_parameters():
    rng = np.random.default_rng(1)
    samples = {"freq (Hz)": 100 + 1e-6 * rng.standard_normal(500), "alpha (rad)": rng.uniform(size=500)}
    grid = plots.plot_corner(axes(2, 2), samples, injected={"alpha (rad)": 0.5})
    assert not grid[0, 1].get_visible()
    assert grid[1, 0].get_xlabel().startswith("freq (Hz)\n$-$ 100")
    assert len(grid[1, 1].lines) == 1 and len(grid[0, 0].lines) == 0
    with pytest.raises(ValueError, match="2 parameters"):
        plots.plot_corner(axes(3, 3), samples)


def test_the_error_ellipse_holds_95_percent():
    covariance = np.array([[4.0, 1.0], [1.0, 2.0]])
    sky, marks = (np.arange(-3, 4), np.arange(-3, 4), np.ones((7, 7))), {"refined": (0.5, -0.5)}
    ax = plots.plot_sky(axes(), *sky, marks=marks, covariance=covariance)
    ellipse = np.transpose(ax.lines[-1].get_data()) - [0.5, -0.5]
    distance = np.einsum("ni,ij,nj->n", ellipse, np.linalg.inv(covariance), ellipse)
    np.testing.assert_allclose(distance, 5.991, rtol=1e-3)  # the 95 % point of chi-squared with 2 degrees of freedom
    with pytest.raises(ValueError, match="'best', which is not one of injected, found, refined"):
        plots.plot_sky(axes(), *sky, marks={"best": (0.0, 0.0)})

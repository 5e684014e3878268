"""Options of searches that would have no effect, and what distinguishes one statistic from another."""

from itertools import combinations

import cases
import numpy as np
import pytest

import jfstat
from jfstat.searching.session.identity import _described


def windows(t0=(0.0, 600.0), tau=(1200.0,), shape="rectangular", **options):
    return jfstat.TransientRange(shape, t0=1e9 + np.array(t0), tau=np.array(tau), **options)


def test_a_checkpoint_tells_statistics_with_other_parameters_apart():
    statistics = [
        jfstat.TwoF(),
        jfstat.MeanTwoF(),
        jfstat.Interpolated(0.1),
        jfstat.Interpolated(0.2),
        jfstat.BestPath(1),
        jfstat.BestPath(2),
        jfstat.BestPath(1, subband=0.1),
        jfstat.BestPath(1, subband=0.2),
        jfstat.BestPath(1, (1e-24, 0.5, 0.1)),
        jfstat.BSGL(),
        jfstat.BSGL(jfstat.LinePrior(2.0)),
        jfstat.BSGLtL(),
        jfstat.BSGLtL(jfstat.LinePrior(2.0)),
        jfstat.BSGLtL(jfstat.LinePrior(olgx=[1.0, 2.0])),
        jfstat.Transient(windows()),
        jfstat.Transient(windows(), "BtSG"),
        jfstat.Transient(windows(tau=(1201.0,))),
        jfstat.Transient(windows(t0=(0.0, 601.0))),
        jfstat.Transient(windows(shape="exponential")),
        jfstat.Transient(windows(rho_max=2.0)),
    ]
    for one, other in combinations(map(_described, statistics), 2):
        assert one != other
    assert _described(jfstat.Transient(windows())) == _described(jfstat.Transient(windows()))


@pytest.mark.ci
@pytest.mark.parametrize("detectors", [["H1"], ["H1", "L1"]])
def test_a_prior_of_lines_without_effect_is_an_error(detectors):
    case = cases.make(40.0, 3, days=0.25, detectors=detectors, half_band=0.01)
    data, bank = case.data, case.doppler
    prior = jfstat.LinePrior(2.0)
    with pytest.raises(ValueError, match="line_prior has no effect"):
        jfstat.plan_search(data, bank, details=jfstat.Details(False, line_prior=prior))
    if len(detectors) == 1:
        with pytest.raises(ValueError, match="line_prior has no effect"):
            jfstat.plan_search(data, bank, details=jfstat.Details(line_prior=prior))
        with pytest.raises(ValueError, match="line_prior has no effect"):
            jfstat.fstat_table(data, jfstat.search(data, bank, top=2, progress=False), line_prior=prior)
    else:
        jfstat.plan_search(data, bank, details=jfstat.Details(line_prior=prior))
        cut = jfstat.Keep(bsgl_threshold=0.0)
        jfstat.plan_search(data, bank, keep=cut, details=jfstat.Details(False, line_prior=prior))

"""Numbers that are far beyond what they stand for: each is refused in a sentence, none leads to an overflow."""

import warnings

import pytest

import jfstat

START = 10**9


@pytest.fixture(scope="module")
def sfts():
    return jfstat.simulate_sfts(["H1"], START, 7200, 99, 101, sqrt_sx=4e-24)


@pytest.fixture(scope="module")
def data(sfts):
    return jfstat.prepare(sfts, 99.99, 100.01, START)


def point(**changes):
    return jfstat.Doppler(**({"alpha": 1.0, "delta": 0.2, "fkdot": [100.0], "reftime": START} | changes))


HUGE = [1e16, 1e40, 1e300, -1e300, 10**400]
PLACES = {
    "frequency": ("fkdot", lambda x, **_: point(fkdot=[x])),
    "spin-down": ("fkdot", lambda x, **_: point(fkdot=[100.0, x])),
    "reference time": ("reftime", lambda x, **_: point(reftime=x)),
    "size of an orbit": ("asini", lambda x, **_: jfstat.Orbit(x, 1e5, START, 0, 0)),
    "period": ("period", lambda x, **_: jfstat.Orbit(1.0, x, START, 0, 0)),
    "time of ascending node": ("tp", lambda x, **_: jfstat.Orbit(1.0, 1e5, x, 0, 0)),
    "band": ("fm", lambda x, sfts, **_: jfstat.prepare(sfts, x, 2 * x)),
    "time of prepared data": ("reftime", lambda x, sfts, **_: jfstat.prepare(sfts, 99.99, 100.01, x)),
    "guard": ("guard", lambda x, sfts, **_: jfstat.prepare(sfts, 99.99, 100.01, guard=x)),
    "range of spin-downs": ("fdots", lambda x, sfts, **_: jfstat.prepare(sfts, 99.99, 100.01, fdots=[(x, x)])),
    "noise floor's band": ("fmax", lambda x, sfts, **_: jfstat.psd(sfts, 99, x)),
    "start": ("start", lambda x, **_: jfstat.simulate_sfts(["H1"], x, 7200, 99, 101)),
    "duration": ("duration", lambda x, **_: jfstat.simulate_sfts(["H1"], START, x, 99, 101)),
    "simulated band": ("fmax", lambda x, **_: jfstat.simulate_sfts(["H1"], START, 7200, 99, x)),
    "lattice": (
        "f1dot",
        lambda x, data, **_: jfstat.template_bank(1.0, 0.2, (-1e-9, x), data=data, freq=(99.99, 100.01), mismatch=0.1),
    ),
    "threshold of a limit": ("threshold", lambda x, data, **_: jfstat.upper_limit(data, x)),
    "threshold": ("threshold", lambda x, data, **_: jfstat.search(data, point(), threshold=x * 10**30, progress=False)),
    "line-robust threshold": ("bsgl_threshold", lambda x, **_: jfstat.Keep(bsgl_threshold=x * 10**30)),
}


@pytest.mark.parametrize("place", PLACES)
def test_huge_numbers_are_refused_in_a_sentence(sfts, data, place):
    name, call = PLACES[place]
    for x in HUGE:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(ValueError, match=rf"^[^\n]*{name}[^\n]*\.$"):
                call(x, sfts=sfts, data=data)


def test_probabilities_of_huge_amplitudes_are_one(data):
    for h0 in (1e-15, 1e-5, 1e30, 1e300):
        assert float(jfstat.detection_probability(data, h0, 50.0)) == 1.0

"""2F with the Doppler modulation switched off: large for lines, small for signals."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat

START = 1_140_000_000
SKY = (0.7, -0.3)


def simulated(signals=(), line=0.0):
    """A day of noise in two detectors, with a line of a given amplitude in H1 at a bin of the SFTs."""
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 86400, 78.5, 81.5, sqrt_sx=6e-24, signals=signals, seed=2)
    if line:
        h1 = next(series for series in sfts if series.detector == "H1")
        h1.data[:, int(80.0 * 1800) - sfts.first_bin] += line * 900  # strain/2 times Tsft; its phase is the same in all
    return jfstat.prepare(sfts, 79.97, 80.03, sqrt_sx=6e-24)


def loudest(data):
    """The template of the loudest frequency at a sky position."""
    band = np.asarray(jfstat.twoF_band(data, jfstat.Doppler(*SKY, [80.0], START)))
    return jfstat.Doppler(*SKY, [float(data.frequencies[band.argmax()])], START), float(band.max())


def test_a_line_is_louder_without_doppler_modulation():
    data = simulated(line=5e-25)
    point, twoF = loudest(data)
    off = float(jfstat.dm_off_twoF(data, point))
    within = jax.jit(lambda x: x * jfstat.dm_off_twoF(data, point))  # of arguments that are known
    assert float(within(jnp.float32(1))) == pytest.approx(off, rel=1e-5)
    assert twoF > 50 and off > 1.5 * twoF
    # no more than all of the line, h^2 T/S, and the noise in it
    power = 5e-25**2 * 86400 / 6e-24**2
    assert off < 4 + power + 8 * power**0.5


def test_a_signal_is_louder_with_it():
    signal = (jfstat.Doppler(*SKY, [80.0], START), jfstat.Amplitude(1e-24, 0.4, 0.1, 0.2))
    data = simulated([signal])
    point, twoF = loudest(data)
    off = float(jfstat.dm_off_twoF(data, point))
    assert twoF > 200 and 10 < off < 0.8 * twoF


def test_arguments_are_checked():
    data = simulated()
    with pytest.raises(ValueError, match="must not be traced"):
        jax.jit(jfstat.dm_off_twoF)(data, jfstat.Doppler(*SKY, [80.0], START))
    with pytest.raises(TypeError, match="FstatData"):
        jfstat.dm_off_twoF(data.observation, jfstat.Doppler(*SKY, [80.0], START))

"""Measures what tapers do for transient windows: the scatter of d2F/dt0 in noise, and the loss of rho^2.

    python examples/transient_tapers.py --output examples/transient_tapers.json

Two days of H1 and L1 with a rectangular signal of 20 h. Scatter: the derivative at start times from 1 to 9 h too late,
the end held, of data with noise minus that of the same data without, for the fine samples of prepared data and for
atoms of 1800 s. Loss: 2F without noise at the signal's own t0 and tau, relative to that of the sharp window.
"""

import argparse
import json

import jax
import numpy as np

import jfstat

jax.config.update("jax_enable_x64", True)

START, HOUR = 1_130_000_000, 3600.0
POINT = jfstat.Doppler(1.7, 0.4, [90.0, -1e-9], START)
LOUD = jfstat.Amplitude(4e-24, 0.2, 0.3, 1.0)
SIGNAL = jfstat.TransientWindow("rectangular", START + 14 * HOUR, 20 * HOUR)
FLOOR = 2e-23


def prepared(noise, seed=0):
    """Data with the signal, with or without noise."""
    signals = [(POINT, LOUD, SIGNAL)]
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 2 * 86400, 89, 91, sqrt_sx=noise, signals=signals, seed=seed)
    return jfstat.prepare(sfts, 89.995, 90.005, guard=0.1, sqrt_sx=FLOOR, filters=False)


@jax.jit
def slopes(data, point, taper, t0):
    """d2F/dt0 per hour, with the window's end held, at start times in s since START; data and taper are traced."""
    end = 34 * HOUR

    def two_f(x):
        window = jfstat.TransientWindow("rectangular", START + x, end - x, taper=0.0 if taper is None else taper)
        return jfstat.transient_twoF(data, point, window)

    return HOUR * jax.lax.map(jax.grad(two_f), t0)


def main():
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    clean = prepared(None)
    power = float(jfstat.transient_twoF(clean, POINT, SIGNAL))
    dt = float(clean.band.dt)
    found: dict = {
        "command": "python examples/transient_tapers.py --output examples/transient_tapers.json",
        "rho2": power,
        "tau_h": 20.0,
        "sample_s": dt,
        "seeds": options.seeds,
        "slopes_per_h": [],
        "loss": [],
    }
    t0 = 14 * HOUR + np.linspace(1, 9, 81) * HOUR + 17.3
    noisy = [prepared(FLOOR, 1 + k) for k in range(options.seeds)]
    kinds = {
        "prepared": (clean, noisy, POINT),
        "atoms of 1800 s": (jfstat.atoms(clean, POINT), [jfstat.atoms(x, POINT) for x in noisy], None),
    }
    for kind, (without, several, point) in kinds.items():
        for hours in (0.0, 0.5, 1.0, 2.0, 4.0):
            taper = HOUR * hours if hours else None
            mean, *each = (np.asarray(slopes(x, point, taper, t0)) for x in (without, *several))
            apart = np.array(each) - mean
            row = {"data": kind, "taper_h": hours, "mean": float(mean.mean()), "scatter": float(apart.std())}
            row["wrong_sign"] = float(np.mean((apart + mean) * mean.mean() < 0))
            found["slopes_per_h"].append(row)
            print(row, flush=True)
    for part in (0.05, 0.1, 0.2, 0.5, 1.0):
        window = jfstat.TransientWindow("rectangular", SIGNAL.t0, SIGNAL.tau, taper=part * SIGNAL.tau)
        measured = 1 - float(jfstat.transient_twoF(clean, POINT, window)) / power
        # overlap^2 / (energy of the window x energy of the signal), for constant antenna patterns
        derived = 1 - (1 - 2 * 5 / 64 * part) ** 2 / (1 - 2 * (0.5 - 181 / 462) * part)
        found["loss"].append({"taper_over_tau": part, "measured": measured, "derived": derived})
        print(found["loss"][-1], flush=True)
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
            file.write("\n")


if __name__ == "__main__":
    main()

"""Make jfstat/pulsars/hardware_injections.csv of the .par files that CWInPy has of LIGO's hardware injections.

    git clone https://github.com/cwinpy/cwinpy
    python examples/hardware_injections.py cwinpy/cwinpy/pkg_data > jfstat/pulsars/hardware_injections.csv

The files are read by `jfstat.read_par`, and what they say twice is compared: the runs with each other, and in O4 the
amplitudes of both polarisations with h0 and cos(iota).
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

import jax

import jfstat
from jfstat.pulsars.hardware import COLUMNS, SETS

jax.config.update("jax_enable_x64", True)

COMMENT = """\
# Continuous-wave hardware injections in LIGO's detectors, written by examples/hardware_injections.py from the .par
# files of CWInPy (https://github.com/cwinpy/cwinpy, cwinpy/pkg_data/*/hw_inj, commit 2cbb5be1), which follow the tables
# of gwosc.org. freq and f1dot are the wave's, twice those of the .par files, at reftime, a GPS time in the solar-system
# barycentre; phi0 is the wave's phase there, twice that of the .par files, as in LALSuite. Units: Hz, Hz/s, rad, s.
# Without an orbit asini is empty; an h0 is empty if there was no such injection in the run.
"""


def fields(path: Path) -> dict[str, float | str]:
    """Return the values of one file by the table's columns, with its h0 as ``h0``."""
    pulsar = jfstat.read_par(path)
    words = dict(line.split(None, 1) for line in path.read_text().splitlines() if line[:1].isalpha())
    h0, psi, phi0 = (float(words[name]) for name in ("H0", "PSI", "PHI0"))
    cosi = float(words["COSIOTA"]) if "COSIOTA" in words else math.cos(float(words["IOTA"]))
    if "HPLUS" in words:
        assert math.isclose(0.5 * h0 * (1 + cosi**2), float(words["HPLUS"]), rel_tol=1e-9), path
        assert math.isclose(h0 * cosi, float(words["HCROSS"]), rel_tol=1e-9, abs_tol=1e-40), path
    point, reftime = pulsar.doppler(), float(pulsar.epoch)
    assert abs(reftime - round(reftime)) < 1e-6, "reference times are whole seconds, but for rounding"
    found = {"name": path.stem, "freq": float(point.fkdot[0]), "f1dot": float(point.fkdot[1])}
    found |= {"alpha": float(point.alpha), "delta": float(point.delta), "reftime": round(reftime)}
    found |= {"cosi": cosi, "psi": psi, "phi0": 2 * phi0 % (2 * math.pi)}
    for name in ("asini", "period", "tp", "ecc", "argp"):
        found[name] = "" if point.orbit is None else float(getattr(point.orbit, name))
    if point.orbit is not None:
        t0 = float(pulsar.binary.t0)  # which the template's is, but for whole periods
        assert abs(math.remainder(t0 - found["tp"], found["period"])) < 1e-6 and abs(t0 - round(t0)) < 1e-6, path
        found["tp"] = round(t0)
    return found | {"h0": h0}


def main(folder: Path) -> None:
    table: dict[str, dict[str, float | str]] = {}
    for run in SETS:
        for path in sorted((folder / run / "hw_inj").glob("*.par")):
            own = fields(path)
            own[f"h0_{run}"] = own.pop("h0")
            known = table.setdefault(path.stem, own)
            for name, value in own.items():
                same = known.setdefault(name, value)
                assert same == value or math.isclose(same, value, rel_tol=1e-9, abs_tol=1e-9), (path, name, same, value)
                known[name] = value  # the latest run's has most digits
    print(COMMENT + ",".join(COLUMNS))
    for own in table.values():
        print(",".join(str(own.get(name, "")) for name in COLUMNS))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""Public .par files against PINT: phases over a year, for each file that either program reads.

    python examples/par_files.py collect FOLDER... > files.json     # repositories, each OWNER+NAME/...
    python examples/par_files.py pint files.json phases.json        # where PINT is installed (Luo et al. 2021)
    python examples/par_files.py compare files.json phases.json > examples/par_files.json

Times are those of the solar-system barycentre, so that only the solution's own model counts: spin, glitches, binary.
The direction is compared apart, as the delay that a difference makes. Radio frequencies are infinite. The phase is that
of a gravitational wave, twice the rotation's; the largest difference is half the range over 300 times.

A file is ``equal`` (to 2 millicycles, and `phase_error` says less than that), ``counted`` (the difference is what
`phase_error` says, at most), ``refused``, ``read`` (by jfstat alone), or ``different``.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import sys
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from math import factorial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import jfstat

START, YEAR = 1238166018, 31_536_000
SINCE = np.sort(np.random.default_rng(0).integers(0, YEAR, 300))
EQUAL = 2e-3
AU = 499.004784
"""Astronomical unit over c, s."""
SUFFIX = re.compile(r"\.par$|\.par\.|\.t2par$|_par$", re.IGNORECASE)
RADIO = re.compile(r"DM|JUMP|FD|T2E|EFAC|EQUAD|ECORR|TN|RNAMP|RNIDX|CMWX|SWX|TZR", re.IGNORECASE)
"""Beginnings of entries without effect at infinite radio frequency, some of them thousands a file."""


def collect(folders: list[str]) -> None:
    """Write the different timing solutions in folders, with the repositories that hold each."""
    found: dict[str, dict] = {}
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if not path.is_file() or not SUFFIX.search(path.name):
                continue
            content = path.read_bytes()
            names = {line.split()[0].upper() for line in content.decode("latin-1").splitlines() if line.split()}
            if not (names & {"F0", "F", "P0", "P"} and names & {"RAJ", "RA", "DECJ", "ELONG", "LAMBDA", "PSR", "PSRJ"}):
                continue
            key = hashlib.sha256(content).hexdigest()[:16]
            own = {"repository": Path(folder).name.replace("+", "/"), "path": str(path.relative_to(folder))}
            found.setdefault(key, {"sha256": key, "file": str(path), "copies": []})["copies"].append(own)
    json.dump(list(found.values()), sys.stdout, indent=1)


def pint(files: str, phases: str) -> None:
    """Write the phases and directions that PINT computes from each file, or why it does not."""
    import astropy.units as u
    import pint.logging
    import pint.toa
    from astropy.time import Time
    from pint.models import get_model

    pint.logging.setup("CRITICAL")
    seconds = START + SINCE + 51  # TDB is 51.184 s ahead of GPS
    times = Time(44244 + seconds // 86400, (seconds % 86400 + 0.184) / 86400, format="pulsar_mjd", scale="tdb")
    toas = pint.toa.get_TOAs_array(times, "@", errors=1 * u.us, freqs=np.inf * u.MHz, ephem="builtin", planets=True)
    found = {}
    for entry in json.loads(Path(files).read_text()):
        lines = Path(entry["file"]).read_text(encoding="latin-1").splitlines()
        text = "\n".join(line for line in lines if not RADIO.match(line.strip()))
        # where PINT's names or units are not those of TEMPO and TEMPO2
        text = re.sub(r"(?m)^BINARY\s+BTX", "BINARY BT", text)
        text = re.sub(r"(?m)^(EPS[12]DOT\s+)(\S+)", lambda match: match[1] + in_1e12(match[2]), text)
        if re.search(r"(?m)^EPHVER\s+(5|TEMPO2)", text) and not re.search(r"(?m)^UNITS", text):
            text += "\nUNITS TCB\n"
        try:
            model = get_model(io.StringIO(text), allow_tcb=True, allow_T2=True, allow_name_mixing=True)
            phase = model.phase(toas, abs_phase=False)
            whole, part = (np.asarray(x.value, np.longdouble) for x in (phase.int, phase.frac))
            cycles = (whole - whole[0]) + (part - part[0])
            vectors = [
                model.ssb_to_psb_xyz_ICRS(epoch=time).to_value("").astype(float).ravel().tolist()
                for time in times[[0, -1]]
            ]
            found[entry["sha256"]] = {"cycles": cycles.astype(float).tolist(), "directions": vectors}
        except Exception as error:  # every kind: what PINT does not read is part of the result
            found[entry["sha256"]] = {"error": f"{type(error).__name__}: {error}"[:300]}
    Path(phases).write_text(json.dumps(found))


def in_1e12(word: str) -> str:
    """Return a rate in units of 1e-12, in which PINT takes small ones too."""
    rate = float(word.upper().replace("D", "E"))
    return repr(rate if abs(rate) > 1e-7 else rate * 1e12)


def compare(files: str, phases: str) -> None:
    """Write what becomes of each file."""
    import jax

    import jfstat

    jax.config.update("jax_enable_x64", True)
    theirs, rows = json.loads(Path(phases).read_text()), []
    for entry in json.loads(Path(files).read_text()):
        row, peer = {**entry["copies"][0], "copies": len(entry["copies"])}, theirs[entry["sha256"]]
        try:
            pulsar = jfstat.read_par(entry["file"])
        except ValueError as error:
            reason = str(error).removeprefix(f"{entry['file']}: ")
            row |= {"outcome": "refused", "reason": reason}
        else:
            row |= outcome(pulsar, peer)
        if "error" in peer:
            row["pint"] = peer["error"]
        rows.append(row)
    counts = Counter(row["outcome"] for row in rows)
    command = "python examples/par_files.py compare files.json phases.json"
    head = json.dumps({"command": command, "year": [START, START + YEAR], "counts": counts}, indent=1)
    lines = ",\n".join(json.dumps(row) for row in rows)
    print(f'{head[:-2]},\n "files": [\n{lines}\n]}}')


def outcome(pulsar: jfstat.Pulsar, peer: dict) -> dict:
    """Return the difference of the phases of a pulsar from PINT's, the errors that jfstat tells, and what they make."""
    # the longest stretch of the year without glitch
    glitches = [float(glitch.time) - START for glitch in pulsar.glitches if 0 < float(glitch.time) - START < YEAR]
    edges = [0.0, *glitches, float(YEAR)]
    low, high = max(pairwise(edges), key=lambda edge: edge[1] - edge[0])
    chosen = np.flatnonzero((low < SINCE) & (high > SINCE))
    start, end = START + float(SINCE[chosen][0]), START + float(SINCE[chosen][-1])
    point, said = pulsar.doppler(start, end), pulsar.phase_error(start, end)
    row = {"phase_error": {cause: float(f"{cycles:.3g}") for cause, cycles in said.items() if cycles > 1e-6}}
    if glitches:
        row["days"] = round((end - start) / 86400)
    if "error" in peer:
        return {"outcome": "read", **row}
    since, theirs = SINCE[chosen], 2 * np.array(peer["cycles"], np.longdouble)[chosen]
    apart = half_range(phase(point, since, orbit_delay(point, since)) - theirs)
    if pulsar.binary is not None:  # the solution's orbit, of which the template's is the closest Keplerian one
        own = pulsar.binary.delay(since + (START - float(pulsar.binary.t0)))
        row["solution"] = float(f"{half_range(phase(point, since, own) - theirs):.2g}")
    ends = zip(SINCE[[0, -1]], peer["directions"], strict=True)
    apart += float(point.fkdot[0]) * AU * max(np.linalg.norm(direction(point, t) - np.array(n)) for t, n in ends)
    # at the solar-system barycentre there is no parallax
    total = sum(cycles for cause, cycles in said.items() if cause != "parallax")
    kind = "different" if apart > EQUAL + 1.1 * total else "equal" if total < EQUAL else "counted"
    return {"outcome": kind, "cycles": float(f"{apart:.2g}"), **row}


def half_range(cycles: np.ndarray) -> float:
    return 0.5 * float(np.ptp((cycles - cycles[0]).astype(float)))


def orbit_delay(point: jfstat.Doppler, since: np.ndarray) -> np.ndarray:
    """Return the delay of a template's orbit at times in s since START, s."""
    from jfstat.geometry.orbit import orbit_delay_at_arrival

    if point.orbit is None:
        return np.zeros(len(since))
    orbit = replace(point.orbit, tp=float(point.orbit.tp) - START)
    return np.asarray(orbit_delay_at_arrival(orbit, np.asarray(since, float)))


def phase(point: jfstat.Doppler, since: np.ndarray, delay: np.ndarray) -> np.ndarray:
    """Return the phase of a template at times in s since START at the solar-system barycentre, cycles."""
    emitted = (START - np.longdouble(point.reftime.seconds)) + since - np.longdouble(point.reftime.nanoseconds) / 10**9
    terms = (
        np.longdouble(float(f)) * (emitted - delay) ** (k + 1) / factorial(k + 1) for k, f in enumerate(point.fkdot)
    )
    return sum(terms, np.zeros(len(since), np.longdouble))


def direction(point: jfstat.Doppler, since: float) -> np.ndarray:
    """Return the direction of a template at a time in s since START, (3,) float64."""
    alpha, delta = float(point.alpha), float(point.delta)
    n = np.array([np.cos(alpha) * np.cos(delta), np.sin(alpha) * np.cos(delta), np.sin(delta)])
    if point.motion is not None:
        east = np.array([-np.sin(alpha), np.cos(alpha), 0.0])
        elapsed = START + float(since) - float(point.reftime)
        n = n + elapsed * (float(point.motion[0]) * east + float(point.motion[1]) * np.cross(n, east))
    return n / np.linalg.norm(n)


if __name__ == "__main__":
    {"collect": lambda *folders: collect(list(folders)), "pint": pint, "compare": compare}[sys.argv[1]](*sys.argv[2:])

"""Read the candidates in FITS files of lalpulsar_Weave."""

from __future__ import annotations

import io
import re
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jfstat.candidates.provenance import Provenance
from jfstat.candidates.tables import in_units
from jfstat.signal.parameters import SKY, is_parameter, spin_name

if TYPE_CHECKING:
    from astropy.table import QTable

START = b"SIMPLE  ="
"""How every FITS file begins."""
TOPLIST = "_toplist"
"""End of the names of Weave's tables of candidates, one for each statistic by which it ranks."""
ODDS = "log10BSGL", "log10BSGLtL"


def begins_as_fits(path: Path) -> bool:
    """Return whether a regular file exists, which is no pipe that would be waited for, and begins as FITS files do."""
    try:
        if not path.is_file():
            return False
        with open(path, "rb") as file:
            return file.read(len(START)) == START
    except OSError:
        return False


def table_from_weave(content: bytes, path: Path) -> QTable:
    """Return the candidates of all toplists in a file of lalpulsar_Weave or WeaveConcat, each once.

    The columns are the templates' parameters, means of 2F and log10 of odds. ``mean2F``, or ``sum2F`` over the number
    of segments, is read from coarse lattices and becomes ``mean_twoF_interpolated``, unless Weave ran without
    interpolation; what it has recalculated at the templates (``mean2F_rec``, ``mean2F_H1_rec``, ...) becomes
    ``mean_twoF``, ``mean_twoF_H1``, .... ``log10BSGL`` and ``log10BSGLtL`` are the recalculated ones if there are any.
    Other statistics, and those of single segments, are left out.

    Parameters
    ----------
    content : bytes
    path : Path
        For errors.

    Raises
    ------
    ValueError
        If the file is incomplete or holds no toplist of Weave.
    """
    from astropy.io import fits

    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*truncated", category=UserWarning)
        with fits.open(io.BytesIO(content), memmap=False) as file:
            header = dict(file[0].header)  # type: ignore[attr-defined]
            lists = [np.asarray(own.data) for own in file[1:] if own.name.endswith(TOPLIST)]  # type: ignore[attr-defined]
    if not lists or "SEGMENTS" not in header:
        raise ValueError(
            f"path {str(path)!r} is no file of lalpulsar_Weave with a toplist: name another file, such as that of its "
            "--output-file."
        )
    together = {name: np.concatenate([x[name] for x in lists]) for name in lists[0].dtype.names or ()}
    parameters = [name for name in together if is_parameter(name)]
    # several statistics may rank one template; serial numbers are of each toplist
    rows = np.stack([together[name].astype(np.float64) for name in parameters], axis=1)
    first = np.sort(np.unique(rows, axis=0, return_index=True)[1])
    columns = {name: together[name] for name in parameters} | _statistics(together, header)
    return in_units({name: x[first].astype(np.float64) for name, x in columns.items()}, _meta(header))


def _statistics(given: dict[str, np.ndarray], header: dict[str, Any]) -> dict[str, np.ndarray]:
    """Return the columns of statistics, by their names in jfstat's tables."""
    means = dict(given)
    for end in ("", "_rec"):
        if f"sum2F{end}" in given:
            means.setdefault(f"mean2F{end}", given[f"sum2F{end}"] / int(header["SEGMENTS"]))
    exact = str(header.get("PROGARG INTERPOLATION", "TRUE")).upper() in ("FALSE", "NO", "0", "F")
    columns = {}
    if "mean2F" in means:
        columns["mean_twoF" if exact else "mean_twoF_interpolated"] = means["mean2F"]
    for name, x in means.items():
        found = re.fullmatch(r"mean2F(_[A-Z]\d)?(_rec)?", name)
        if found and (exact or found[2]):
            columns[f"mean_twoF{found[1] or ''}"] = x
    for name in ODDS:
        x = given.get(f"{name}_rec", given.get(name))
        if x is not None:
            columns[name] = x
    return columns


def _meta(header: dict[str, Any]) -> dict[str, Any]:
    """Return what a header says about the search; those of WeaveConcat do not say what was searched."""
    detectors = [str(header[key]) for key in sorted(header) if re.fullmatch(r"DETECT\d+", key)]
    reftime = float(header["DATE-OBS GPS"])
    origin = Provenance(
        reftime=int(reftime) if reftime.is_integer() else reftime,
        detectors=tuple(detectors) or None,
        parameters=_varied(header) if "SEMIPARAM MINFREQ" in header else None,
        n_segments=int(header["SEGMENTS"]),
    )
    meta = origin.meta
    # counts are cumulative over the dimensions; the last without frequencies is of templates
    counts = [key for key in header if key.startswith("NSEMITMPL ") and not key.endswith("NU0DOT")]
    if counts:
        meta["n_templates"] = int(header[counts[-1]])
    if "NSEMITPL" in header:
        meta["n_twoF"] = int(header["NSEMITPL"])
    odds = str(header.get("PROGARG LRS-OLGX", "")).replace('"', "").split(",")
    if "PROGARG LRS-FSTAR0SC" in header:
        meta["Fstar0"] = float(header["PROGARG LRS-FSTAR0SC"])
    if len(odds) == len(detectors) > 0 and all(odds):
        meta["oLGX"] = [float(x) for x in odds]
    return meta


def _varied(header: dict[str, Any]) -> tuple[str, ...]:
    """Return the parameters that had ranges."""
    spins = []
    for k in range(1, int(header.get("NSPINS", 0)) + 1):
        low, high = (header.get(f"SEMIPARAM {end}F{k}DOT", 0.0) for end in ("MIN", "MAX"))
        spins += [spin_name(k)] if low != high else []
    return ("freq", *spins, *(SKY if header.get("SEMIPARAM SKYAREA", 0.0) > 0 else ()))

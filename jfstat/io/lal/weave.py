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

SUFFIXES = (".fits", ".fit")
TOPLIST = "_toplist"
"""End of the names of Weave's tables of candidates, one for each statistic by which it ranks."""


def table_from_weave(content: bytes, path: Path) -> QTable:
    """Return the candidates of all toplists in a file of lalpulsar_Weave, each once; `path` is for errors.

    The columns are the templates' parameters and the means of 2F: ``mean2F`` is read from coarse lattices and becomes
    ``mean_twoF_interpolated``, unless Weave ran without interpolation; what it has recalculated at the templates
    (``mean2F_rec``, ``mean2F_H1_rec``, ..., ``log10BSGL_rec``) becomes ``mean_twoF``, ``mean_twoF_H1``, ..., and
    ``log10BSGL``. Other statistics, and those of single segments, are left out.

    Raises
    ------
    ValueError
        If the file is incomplete or holds no toplist of Weave.
    """
    from astropy.io import fits

    with warnings.catch_warnings():
        warnings.simplefilter("error")  # astropy warns of files that end too early
        with fits.open(io.BytesIO(content), memmap=False) as file:
            header = dict(file[0].header)  # type: ignore[attr-defined]
            lists = [np.asarray(own.data) for own in file[1:] if own.name.endswith(TOPLIST)]  # type: ignore[attr-defined]
    if not lists or "NSEMITPL" not in header:
        raise ValueError(
            f"path {str(path)!r} is no file of lalpulsar_Weave with a toplist: name another file, such as that of its "
            "--output-file."
        )
    # candidates that several statistics rank are the same rows with one serial number
    serial = np.concatenate([own["serial"] for own in lists])
    first = np.sort(np.unique(serial, return_index=True)[1])
    names = {name: _column(name, _interpolates(header)) for name in lists[0].dtype.names or ()}
    columns = {
        own: np.concatenate([x[name] for x in lists])[first].astype(np.float64) for name, own in names.items() if own
    }
    return in_units(columns, _meta(header))


def _interpolates(header: dict[str, Any]) -> bool:
    """Return whether Weave read 2F of segments from lattices of their own, as it does by default."""
    return str(header.get("PROGARG INTERPOLATION", "TRUE")).upper() not in ("FALSE", "NO", "0", "F")


def _column(name: str, interpolated: bool) -> str | None:
    """Return the name of a column of Weave in jfstat's tables, or None for one that has no place there."""
    if is_parameter(name):
        return name
    found = re.fullmatch(r"(mean2F|log10BSGL|log10BSGLtL)(_[A-Z]\d)?(_rec)?", name)
    if found is None:
        return None
    statistic, detector, recalculated = found.groups(default="")
    if interpolated and not recalculated:
        return "mean_twoF_interpolated" if name == "mean2F" else None
    if recalculated or not interpolated:
        return statistic.replace("mean2F", "mean_twoF") + detector
    return None


def _meta(header: dict[str, Any]) -> dict[str, Any]:
    """Return what a header says about the search."""
    counts = [key for key in header if key.startswith("NSEMITMPL ") and not key.endswith("NU0DOT")]
    detectors = [str(header[key]) for key in sorted(header) if re.fullmatch(r"DETECT\d+", key)]
    varied = ["freq"]
    for k in range(1, int(header.get("NSPINS", 0)) + 1):
        low, high = (header.get(f"SEMIPARAM {end}F{k}DOT", 0.0) for end in ("MIN", "MAX"))
        varied += [spin_name(k)] if low != high else []
    varied += SKY if header.get("SEMIPARAM SKYAREA", 0.0) > 0 else ()
    reftime = float(header["DATE-OBS GPS"])
    origin = Provenance(
        reftime=int(reftime) if reftime.is_integer() else reftime,
        detectors=tuple(detectors),
        parameters=tuple(varied),
        n_segments=int(header["NSEGMENT"]),
    )
    # counts are cumulative over the dimensions; the last without frequencies is of templates
    n_templates = {"n_templates": int(header[counts[-1]])} if counts else {}
    return origin.meta | n_templates | {"n_twoF": int(header["NSEMITPL"])}

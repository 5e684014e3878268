"""Format power spectral densities as lalpulsar_ComputePSD's ``--outputPSD`` does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jfstat import kinds
from jfstat.atomic import written_to
from jfstat.io.candidates import HDF5_SUFFIXES, write_candidates
from jfstat.public import public

if TYPE_CHECKING:
    from astropy.table import QTable


@public(table=kinds.table, path=kinds.path)
def write_psd(table: QTable, path: str | os.PathLike) -> Path:
    """Write a table of `psd` in the format that the file's suffix names.

    Parameters
    ----------
    table : QTable
        From `psd`.
    path : str or path
        ``.ecsv``, ``.hdf5`` or ``.h5`` keep everything, with units; any other suffix is ComputePSD's text format, Hz
        and 1/Hz, with a further column for each detector.

    Returns
    -------
    Path
        The file. It is written under a temporary name first, so that it is never incomplete.

    Raises
    ------
    OSError
        If the file cannot be written.
    TypeError, ValueError
        If `table` is none of `psd`, or h5py is missing.
    """
    if "psd" not in table.colnames or "detectors" not in (table.meta or {}):
        raise ValueError("table lacks the column 'psd' or its detectors: give a table from jfstat.psd.")
    if Path(path).suffix.lower() in (".ecsv", *HDF5_SUFFIXES):
        return write_candidates(table, path)
    return written_to(Path(path), psd_text(table).encode())


def psd_text(table: Any) -> str:
    """Format a table of `jfstat.psd`: a line for each frequency, all detectors together first."""
    names = ["psd", *(f"psd_{name}" for name in table.meta["detectors"])]
    lines = [f"%% {key} = {value}" for key, value in table.meta.items()]
    lines += ["%% units: Hz, 1/Hz", "%% columns:"]
    lines.append("%% FreqBinStart " + " ".join(name.replace("psd", "PSD") for name in names))
    columns = [table[name].value.tolist() for name in ("freq", *names)]
    lines += [" ".join([f"{f:.9f}", *(f"{x:.9e}" for x in row)]) for f, *row in zip(*columns, strict=True)]
    return "\n".join([*lines, ""])

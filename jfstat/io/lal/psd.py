"""Format power spectral densities as lalpulsar_ComputePSD's ``--outputPSD`` does."""

from __future__ import annotations

from typing import Any


def psd_text(table: Any) -> str:
    """Format a table of `jfstat.psd`: a line for each frequency, all detectors together first."""
    names = ["psd", *(f"psd_{name}" for name in table.meta["detectors"])]
    lines = [f"%% {key} = {value}" for key, value in table.meta.items()]
    lines += ["%% units: Hz, 1/Hz", "%% columns:"]
    lines.append("%% FreqBinStart " + " ".join(name.replace("psd", "PSD") for name in names))
    columns = [table[name].value.tolist() for name in ("freq", *names)]
    lines += [" ".join([f"{f:.9f}", *(f"{x:.9e}" for x in row)]) for f, *row in zip(*columns, strict=True)]
    return "\n".join([*lines, ""])

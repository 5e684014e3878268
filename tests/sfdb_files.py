"""Writing of SFDB files, field by field as SFDBfileIO.c reads them."""

import struct

import numpy as np

NUMBERS = {"V1": 1, "H1": 2, "L1": 3}
TSAMPLU, EINSTEIN = 1 / 4096, np.float32(1e-20)


def transform(detector, gps, bins, tsft, **fields):
    """The bytes of a transform with bins from 0 Hz on, in strain/Hz."""
    own = dict(gps_ns=0, wink=5, normw=1.2060454, red=4, lavesp=0, n_zeroes=0, frinit=0.0, deltanu=1 / tsft) | fields
    n = len(bins)
    head = struct.pack("<d3id4i2fd2i2f3d", 1.0, NUMBERS[detector] if isinstance(detector, str) else detector, gps,
        own["gps_ns"], tsft, 0, n, own["red"], 1, 0.0, EINSTEIN, 0.0, 1, own["wink"], 0.1, own["normw"], own["frinit"],
        TSAMPLU, own["deltanu"])  # fmt: skip
    head += struct.pack("<6di4d3f3i", *np.zeros(6), own["n_zeroes"], *np.zeros(4), *np.zeros(3), own["lavesp"], 0, 0)
    lengths = (max(own["lavesp"], 0),) * 2 if own["lavesp"] else (own["red"], n // own["red"])
    spectra = [np.full(length, 7.0, "<f4").tobytes() for length in lengths]
    scaled = np.asarray(bins, complex) / (float(EINSTEIN) * TSAMPLU * np.float32(own["normw"]))
    return head + b"".join(spectra) + scaled.astype("<c8").tobytes()


def transforms(sfts, **fields):
    """The bytes of all SFTs by their start times and detectors, with zeros down to 0 Hz."""
    found = {}
    for series in sfts:
        for gps, row in zip(series.gps.tolist(), series.data, strict=True):
            bins = np.concatenate([np.zeros(sfts.first_bin, np.complex64), row])
            found[gps, series.detector] = transform(series.detector, gps, bins, sfts.tsft, **fields)
    return found


def write_sfdb(path, *sets, **fields):
    """Write SFTs as one SFDB file, in the order of time; return its name."""
    found = {key: block for sfts in sets for key, block in transforms(sfts, **fields).items()}
    path.write_bytes(b"".join(found[key] for key in sorted(found)))
    return str(path)

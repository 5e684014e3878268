"""Writes strain files as GWOSC and the detectors' frame builders do."""

import struct
from pathlib import Path

import numpy as np

from jfstat.strain.gwf import Checksum
from jfstat.strain.strainfile import DATA_QUALITY_BITS, INJECTION_BITS

ALL_DATA_QUALITY, ALL_INJECTIONS = 2 ** len(DATA_QUALITY_BITS) - 1, 2 ** len(INJECTION_BITS) - 1


def coloured_noise(seconds: int, rate: int, seed: int) -> np.ndarray:
    """Noise with a spectrum as steep as O3's: 4e-24/sqrt(Hz) in the bucket, 1000 times that at 10 Hz, less below."""
    n = seconds * rate
    f = np.maximum(np.fft.rfftfreq(n, 1 / rate), 1e-3)
    density = 4e-24 * np.sqrt(1 + (f / 400) ** 2 + (f / 50) ** -9) * np.minimum(1, (f / 9) ** 8)
    white = np.fft.rfft(np.random.default_rng(seed).standard_normal(n))
    return np.fft.irfft(white * density * np.sqrt(rate / 2), n)


def write_gwosc(
    path: Path,
    detector: str,
    start: int,
    x: np.ndarray,
    rate: int,
    quality=None,
    injections=None,
    chunk=None,
    **changes,
) -> Path:
    """A file in the layout of gwosc.org's HDF5 files of O3; `changes` replace values in it, None leaves them out.

    With a `chunk`, a number of samples, strain is compressed as gwosc.org's is.
    """
    import h5py

    seconds = len(x) // rate
    values = {
        "meta/Description": b"Strain data time series from LIGO",
        "meta/DescriptionURL": b"http://losc.ligo.org/",
        "meta/Detector": detector.encode(),
        "meta/Duration": seconds,
        "meta/GPSstart": start,
        "meta/Observatory": detector[:1].encode(),
        "meta/Type": b"StrainTimeSeries",
        "meta/UTCstart": b"2019-11-01T00:00:00",
        "quality/simple/DQmask": np.full(seconds, ALL_DATA_QUALITY, np.uint32) if quality is None else quality,
        "quality/simple/DQShortnames": [name.encode() for name in DATA_QUALITY_BITS],
        "quality/injections/Injmask": np.full(seconds, ALL_INJECTIONS, np.uint32) if injections is None else injections,
        "quality/injections/InjShortnames": [name.encode() for name in INJECTION_BITS],
        "strain/Strain": x,
    } | changes
    with h5py.File(path, "w") as file:
        for name, value in values.items():
            if value is not None and name == "strain/Strain" and chunk is not None:
                file.create_dataset(name, data=value, chunks=(chunk,), compression="gzip")
            elif value is not None:
                file[name] = value
        if values["strain/Strain"] is not None:
            attributes = file["strain/Strain"].attrs
            attributes["Npoints"], attributes["Xspacing"], attributes["Xstart"] = len(x), 1 / rate, start
            attributes["Xunits"], attributes["Yunits"] = "second", ""
    return path


def write_frame(path: Path, start: int, rate: int, frames: int = 1, **channels: np.ndarray) -> Path:
    """A frame file with channels by name, ``__`` in place of the colon, cut into frames of equal length.

    Channels of whole numbers have fewer samples a second than strain, all of the same span.
    """
    import lal
    import lalframe

    kinds = {"f8": "REAL8", "f4": "REAL4", "i4": "INT4", "u4": "UINT4"}
    seconds = next(len(x) // rate for x in channels.values() if x.dtype.kind == "f")
    length = seconds // frames
    file = lalframe.FrameUFrFileOpen(str(path), "w")
    for k in range(frames):
        epoch = lal.LIGOTimeGPS(start + k * length)
        frame = lalframe.FrameNew(epoch, length, "LIGO", 0, k, 0)
        for name, x in channels.items():
            own = len(x) // seconds
            part = x[k * length * own : (k + 1) * length * own]
            kind = kinds[x.dtype.str[1:]]
            series = getattr(lal, f"Create{kind}TimeSeries")(
                name.replace("__", ":"), epoch, 0.0, 1 / own, lal.DimensionlessUnit, len(part)
            )
            series.data.data = part
            getattr(lalframe, f"FrameAdd{kind}TimeSeriesProcData")(frame, series)
        lalframe.FrameUFrameHWrite(file, frame)
    del file  # which closes it
    return path


def sealed(data: bytes) -> bytes:
    """Bytes of a frame file with the checksum of each structure computed anew, as far as structures follow."""
    content, place = bytearray(data), 40
    while place + 14 <= len(content):
        (length,) = struct.unpack_from("<Q", content, place)
        stop = place + length - (8 if place + length == len(content) else 4)
        if not place + 14 < stop < len(content):
            break
        struct.pack_into("<I", content, stop, Checksum(bytes(content[place:stop])).value)
        place += length
    return bytes(content)

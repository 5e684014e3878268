"""The detectors that jfstat knows by their prefixes, and the conversion of users' arguments to detectors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jfstat.geometry.detector import Detector, Vector, arm
from jfstat.validation import shown

DetectorLike = str | Detector
"""A detector by its prefix, such as ``"H1"``, or a Detector."""


def _known(
    prefix: str,
    name: str,
    location: Vector,
    longitude: float,
    latitude: float,
    arms: tuple[tuple[float, float], ...],
) -> Detector:
    """Make a detector with LALSuite's numbers: vertex in m, position in rad, azimuth and altitude of each arm."""
    return Detector(prefix, location, [arm(longitude, latitude, *angles) for angles in arms], name)


# Vertices, longitudes, latitudes and arm directions as in LALSuite (LALDetectors.h), where it has them. The prefixes
# are the ones in SFT files, where LALSuite calls the 40 m prototype P1 and the early Virgo V2.
DETECTORS: dict[str, Detector] = {
    d.prefix: d
    for d in (
        _known(
            "T1",
            "TAMA_300",
            (-3946408.99111, 3366259.02802, 3699150.69233),
            2.43536359469,
            0.62267336022,
            ((4.712389, 0.0), (3.1415927, 0.0)),
        ),
        _known(
            "V2",
            "VIRGO_CITF",
            (4546374.099, 842989.697626, 4378576.96241),
            0.18333805213,
            0.76151183984,
            ((0.33916286, 0.0), (5.051552, 0.0)),
        ),
        _known(
            "V1",
            "VIRGO",
            (4546374.099, 842989.697626, 4378576.96241),
            0.18333805213,
            0.76151183984,
            ((0.33916286, 0.0), (5.051552, 0.0)),
        ),
        _known(
            "G1",
            "GEO_600",
            (3856309.94926, 666598.956317, 5019641.41725),
            0.17116780435,
            0.91184982752,
            ((1.193601, 0.0), (5.830393, 0.0)),
        ),
        _known(
            "H2",
            "LHO_2k",
            (-2161414.92636, -3834695.17889, 4600350.22664),
            -2.08405676917,
            0.81079526383,
            ((5.654877, -0.0006195), (4.0840807, 1.25e-05)),
        ),
        _known(
            "H1",
            "LHO_4k",
            (-2161414.92636, -3834695.17889, 4600350.22664),
            -2.08405676917,
            0.81079526383,
            ((5.654877, -0.0006195), (4.0840807, 1.25e-05)),
        ),
        _known(
            "L1",
            "LLO_4k",
            (-74276.0447238, -5496283.71971, 3224257.01744),
            -1.58430937078,
            0.53342313506,
            ((4.4031777, -0.0003121), (2.8323815, -0.0006107)),
        ),
        _known(
            "P1",
            "CIT_40",
            (-2490649.58347, -4658699.68211, 3562064.11403),
            -2.06175744538,
            0.59637900541,
            ((3.1415927, 0.0), (1.5707964, 0.0)),
        ),
        _known(
            "A1",
            "ALLEGRO_320",
            (-113258.96414, -5504083.37391, 3209895.67981),
            -1.59137068496,
            0.53079879206,
            ((-0.6981317, 0.0),),
        ),
        _known(
            "O1",
            "AURIGA",
            (4392467.33007, 929508.666967, 4515029.13071),
            0.20853775679,
            0.79156499342,
            ((0.7679449, 0.0),),
        ),
        _known(
            "X1",
            "EXPLORER",
            (4376453.95452, 475435.044067, 4599852.7445),
            0.10821041362,
            0.81070543755,
            ((0.6806784, 0.0),),
        ),
        _known(
            "B1",
            "NIOBE",
            (-2359488.71453, 4877215.71259, -3354160.03274),
            2.02138216202,
            -0.5573418078,
            ((0.0, 0.0),),
        ),
        _known(
            "N1",
            "Nautilus",
            (4644109.99868, 1044253.42477, 4231047.13307),
            0.22117684946,
            0.7299645671,
            ((0.7679449, 0.0),),
        ),
        _known(
            "K1",
            "KAGRA",
            (-3777336.024, 3484898.411, 3765313.697),
            2.396441015,
            0.6355068497,
            ((1.054113, 0.0031414), (-0.5166798, -0.003627)),
        ),
        _known(
            "I1",
            "LIO_4k",
            (1348971.15479, 5857428.26577, 2127569.25209),
            1.34444215058,
            0.34231676739,
            ((5.8012013, 0.0), (4.2303905, 0.0)),
        ),
        _known(
            "E1",
            "ET1_T1400308",
            (4546374.099, 842989.697626, 4378576.96241),
            0.18333805213,
            0.76151183984,
            ((0.33916286, 0.0), (5.5751505, 0.0)),
        ),
        _known(
            "E2",
            "ET2_T1400308",
            (4539369.51685, 845074.592488, 4385402.57904),
            0.1840585887,
            0.7629930799,
            ((4.52845115854, -0.00078362156), (3.48125307555, -0.00157024452)),
        ),
        _known(
            "E3",
            "ET3_T1400308",
            (4542405.95075, 835639.650438, 4384075.19902),
            0.1819299673,
            0.76270463257,
            ((2.43258574281, -0.00156852107), (1.38538766217, -0.00078189811)),
        ),
        # Cosmic Explorer has no site yet, and LALSuite no entry. These are the fiducial sites A (40 km, off the coast
        # of Washington) and B (20 km, off the coast of Texas) of Gupta et al. 2024, Class. Quantum Grav. 41, 245001:
        # latitudes 46 and 29, longitudes -125 and -94, x arms 260 and 200 degrees north of east. PyCBC's documentation
        # uses the same places and names.
        _known(
            "C4",
            "CE_A_40",
            (-2545715.82961, -3635658.98780, 4565247.54083),
            np.radians(-125.0),
            np.radians(46.0),
            ((np.radians(190.0), 0.0), (np.radians(100.0), 0.0)),
        ),
        _known(
            "C2",
            "CE_B_20",
            (-389439.10640, -5569238.68793, 3073901.20059),
            np.radians(-94.0),
            np.radians(29.0),
            ((np.radians(250.0), 0.0), (np.radians(160.0), 0.0)),
        ),
    )
}


def get_detector(detector: DetectorLike) -> Detector:
    """Return the detector with a prefix; a Detector is returned unchanged.

    Raises
    ------
    TypeError
        If `detector` is neither a prefix nor a Detector.
    ValueError
        If the prefix is unknown.
    """
    if isinstance(detector, Detector):
        return detector
    if not isinstance(detector, str):
        raise TypeError(f"detector must be a prefix such as 'H1' or a jfstat.Detector, not {detector!r}.")
    if detector not in DETECTORS:
        raise ValueError(
            f"detector {detector!r} is unknown: use one of {', '.join(sorted(DETECTORS))}, or give a jfstat.Detector."
        )
    return DETECTORS[detector]


def get_detectors(
    detectors: DetectorLike | Iterable[DetectorLike], argument: str = "detectors"
) -> tuple[Detector, ...]:
    """Return detectors from one or several prefixes or Detectors; `argument` is named in errors.

    Raises
    ------
    ValueError
        If no detector is given, one is neither a known prefix nor a Detector, or two have the same prefix.
    """
    given: Any = (detectors,) if isinstance(detectors, (str, Detector)) else detectors
    try:
        parts = tuple(given)
    except Exception:  # whatever a foreign object raises
        parts = ()
    names = [getattr(part, "prefix", part) for part in parts]
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(
            f"{argument} must be different prefixes such as ['H1', 'L1'], or Detectors, not {shown(detectors)}."
        )
    return tuple(get_detector(part) for part in parts)

"""Positions and response tensors of the detectors, by prefix."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Detector:
    """A ground-based detector.

    Attributes
    ----------
    prefix : str
        Two-character channel prefix, such as ``"H1"``.
    name : str
        Its name in LALSuite.
    location : tuple of 3 float
        Vertex in the Earth-fixed frame, m.
    longitude, latitude : float
        Geodetic position of the vertex, rad, north and east positive.
    arms : tuple of (azimuth, altitude) in rad
        Directions of the two arms, azimuth from north through east; a resonant bar has one.
    """

    prefix: str
    name: str
    location: tuple[float, float, float]
    longitude: float
    latitude: float
    arms: tuple[tuple[float, float], ...]

    @property
    def response(self) -> np.ndarray:
        """Response tensor in the Earth-fixed frame, (3, 3) float64.

        (x x - y y)/2 for an interferometer with arms along x and y, x x for a bar along x (LALSuite:
        XLALCreateDetector, which rounds it to float32).
        """
        sin_lon, cos_lon = np.sin(self.longitude), np.cos(self.longitude)
        sin_lat, cos_lat = np.sin(self.latitude), np.cos(self.latitude)
        east = np.array([-sin_lon, cos_lon, 0.0])
        north = np.array([-sin_lat * cos_lon, -sin_lat * sin_lon, cos_lat])
        up = np.array([cos_lat * cos_lon, cos_lat * sin_lon, sin_lat])
        arms = [
            np.cos(altitude) * (np.sin(azimuth) * east + np.cos(azimuth) * north) + np.sin(altitude) * up
            for azimuth, altitude in self.arms
        ]
        if len(arms) == 1:
            return np.outer(arms[0], arms[0])
        return 0.5 * (np.outer(arms[0], arms[0]) - np.outer(arms[1], arms[1]))


# Vertices, longitudes, latitudes and arm directions as in LALSuite (LALDetectors.h). The prefixes are those of SFT
# files, where LALSuite calls the 40 m prototype P1 and the early Virgo V2.
DETECTORS: dict[str, Detector] = {
    d.prefix: d
    for d in (
        Detector(
            "T1",
            "TAMA_300",
            (-3946408.99111, 3366259.02802, 3699150.69233),
            2.43536359469,
            0.62267336022,
            ((4.712389, 0.0), (3.1415927, 0.0)),
        ),
        Detector(
            "V2",
            "VIRGO_CITF",
            (4546374.099, 842989.697626, 4378576.96241),
            0.18333805213,
            0.76151183984,
            ((0.33916286, 0.0), (5.051552, 0.0)),
        ),
        Detector(
            "V1",
            "VIRGO",
            (4546374.099, 842989.697626, 4378576.96241),
            0.18333805213,
            0.76151183984,
            ((0.33916286, 0.0), (5.051552, 0.0)),
        ),
        Detector(
            "G1",
            "GEO_600",
            (3856309.94926, 666598.956317, 5019641.41725),
            0.17116780435,
            0.91184982752,
            ((1.193601, 0.0), (5.830393, 0.0)),
        ),
        Detector(
            "H2",
            "LHO_2k",
            (-2161414.92636, -3834695.17889, 4600350.22664),
            -2.08405676917,
            0.81079526383,
            ((5.654877, -0.0006195), (4.0840807, 1.25e-05)),
        ),
        Detector(
            "H1",
            "LHO_4k",
            (-2161414.92636, -3834695.17889, 4600350.22664),
            -2.08405676917,
            0.81079526383,
            ((5.654877, -0.0006195), (4.0840807, 1.25e-05)),
        ),
        Detector(
            "L1",
            "LLO_4k",
            (-74276.0447238, -5496283.71971, 3224257.01744),
            -1.58430937078,
            0.53342313506,
            ((4.4031777, -0.0003121), (2.8323815, -0.0006107)),
        ),
        Detector(
            "P1",
            "CIT_40",
            (-2490649.58347, -4658699.68211, 3562064.11403),
            -2.06175744538,
            0.59637900541,
            ((3.1415927, 0.0), (1.5707964, 0.0)),
        ),
        Detector(
            "A1",
            "ALLEGRO_320",
            (-113258.96414, -5504083.37391, 3209895.67981),
            -1.59137068496,
            0.53079879206,
            ((-0.6981317, 0.0),),
        ),
        Detector(
            "O1",
            "AURIGA",
            (4392467.33007, 929508.666967, 4515029.13071),
            0.20853775679,
            0.79156499342,
            ((0.7679449, 0.0),),
        ),
        Detector(
            "X1",
            "EXPLORER",
            (4376453.95452, 475435.044067, 4599852.7445),
            0.10821041362,
            0.81070543755,
            ((0.6806784, 0.0),),
        ),
        Detector(
            "B1",
            "NIOBE",
            (-2359488.71453, 4877215.71259, -3354160.03274),
            2.02138216202,
            -0.5573418078,
            ((0.0, 0.0),),
        ),
        Detector(
            "N1",
            "Nautilus",
            (4644109.99868, 1044253.42477, 4231047.13307),
            0.22117684946,
            0.7299645671,
            ((0.7679449, 0.0),),
        ),
        Detector(
            "K1",
            "KAGRA",
            (-3777336.024, 3484898.411, 3765313.697),
            2.396441015,
            0.6355068497,
            ((1.054113, 0.0031414), (-0.5166798, -0.003627)),
        ),
        Detector(
            "I1",
            "LIO_4k",
            (1348971.15479, 5857428.26577, 2127569.25209),
            1.34444215058,
            0.34231676739,
            ((5.8012013, 0.0), (4.2303905, 0.0)),
        ),
        Detector(
            "E1",
            "ET1_T1400308",
            (4546374.099, 842989.697626, 4378576.96241),
            0.18333805213,
            0.76151183984,
            ((0.33916286, 0.0), (5.5751505, 0.0)),
        ),
    )
}


def get_detector(prefix: str) -> Detector:
    """The detector with this prefix.

    Raises
    ------
    ValueError
        If there is none.
    """
    if prefix not in DETECTORS:
        raise ValueError(f"detector {prefix!r} is unknown: use one of {', '.join(sorted(DETECTORS))}.")
    return DETECTORS[prefix]

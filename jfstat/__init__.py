"""jfstat: the F-statistic for continuous gravitational waves in JAX."""

from jfstat.banks.template_bank import template_bank
from jfstat.candidates.files import read_candidates, write_candidates
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrow import narrow
from jfstat.data.narrowdata import NarrowData, covers
from jfstat.data.observation import Observation, observation
from jfstat.data.prepare import prepare
from jfstat.followup.posterior import log_posterior
from jfstat.followup.refine import refine
from jfstat.metrics.coordinates import Coordinates, whiten
from jfstat.metrics.metric import metric
from jfstat.metrics.mismatch import mismatch
from jfstat.searching.search import search
from jfstat.searching.session.stop import SearchStopped
from jfstat.searching.session.units import merge
from jfstat.sfts import SFTs, join_sfts, read_sfts, write_sfts
from jfstat.simulate.simulate import inject, simulate_sfts
from jfstat.simulate.strain import sfts_from_strain
from jfstat.statistic.fstat import (
    AmplitudeEstimate,
    Fstat,
    estimate_amplitude,
    fstat,
    predict_twoF,
    resample,
    twoF,
    twoF_band,
)
from jfstat.templates import Amplitude, Doppler, Orbit
from jfstat.times import GPSTime
from jfstat.version import __version__ as __version__

__all__ = [
    "Amplitude",
    "AmplitudeEstimate",
    "Coordinates",
    "Doppler",
    "Fstat",
    "FstatData",
    "GPSTime",
    "NarrowData",
    "Observation",
    "Orbit",
    "SFTs",
    "SearchStopped",
    "covers",
    "estimate_amplitude",
    "fstat",
    "inject",
    "join_sfts",
    "log_posterior",
    "merge",
    "metric",
    "mismatch",
    "narrow",
    "observation",
    "predict_twoF",
    "prepare",
    "read_candidates",
    "read_sfts",
    "refine",
    "resample",
    "search",
    "sfts_from_strain",
    "simulate_sfts",
    "template_bank",
    "twoF",
    "twoF_band",
    "whiten",
    "write_candidates",
    "write_sfts",
]

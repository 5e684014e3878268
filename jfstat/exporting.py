"""Let `jax.export` write functions whose arguments or results are jfstat's pytrees to files, and read them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import cache, partial
from threading import Lock
from typing import Any

from jfstat.data.bandseries import Band, Layout
from jfstat.data.datatimes import Times
from jfstat.data.direct import Pieces
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrow import NarrowPlan, NarrowSizes
from jfstat.data.narrowdata import NarrowData
from jfstat.data.normalised import BandLayout, NormalisedSFTs
from jfstat.data.observation import Observation
from jfstat.data.slicesizes import AtomSizes
from jfstat.data.windowtimes import WindowTimes
from jfstat.geometry.barycenter import Direction
from jfstat.geometry.frequencies import Motion
from jfstat.geometry.nearby import Sites
from jfstat.geometry.trajectory import State, Trajectory
from jfstat.inference.amplitudeposterior import AmplitudePosterior
from jfstat.inference.amplitudeprior import AmplitudePrior
from jfstat.inference.density import PosteriorDensity
from jfstat.inference.distributions import Cosine, Exponential, FermiDirac, HalfNormal, LogUniform, Normal, Uniform
from jfstat.inference.dualharmonic import DualHarmonicAmplitude, DualHarmonicPrior
from jfstat.inference.dualposterior import DualHarmonicPosterior
from jfstat.inference.model import Model
from jfstat.inference.population import EllipticityLikelihoods
from jfstat.metrics.coordinates import Coordinates
from jfstat.public import public
from jfstat.pulsars.timingerrors import TimingErrors
from jfstat.signal.phasemodel import PhaseModel
from jfstat.signal.templates import Amplitude, Doppler, Orbit
from jfstat.signal.times import GPSTime
from jfstat.signal.transientwindow import TransientWindow
from jfstat.statistic.atoms import Atoms
from jfstat.statistic.fstat import AmplitudeEstimate, Fstat
from jfstat.statistic.noiseenergy import NoiseEnergy
from jfstat.statistic.polarisations import PolarisationFstat
from jfstat.statistic.resample import Resampled
from jfstat.statistic.semicoherent import SemicoherentAmplitude, SemicoherentFstat
from jfstat.statistic.trackpower import NormalisedPower
from jfstat.statistic.transients import TransientMap
from jfstat.tracking.track import Track
from jfstat.tracking.viterbi import PathPosterior, ViterbiPath
from jfstat.validation import shown

CLASSES: tuple[type, ...] = (Amplitude, AmplitudeEstimate, Atoms, Band, Coordinates, Direction, Doppler, Fstat)
CLASSES += (FstatData, GPSTime, Layout, NarrowData, Observation, Orbit, PathPosterior, PhaseModel)
CLASSES += (SemicoherentAmplitude, SemicoherentFstat, Sites, State, Track, Trajectory, TransientMap, TransientWindow)
CLASSES += (ViterbiPath, AtomSizes, NarrowPlan, NarrowSizes, Pieces, Times, AmplitudePosterior, AmplitudePrior)
CLASSES += (Cosine, FermiDirac, HalfNormal, LogUniform, Model, Normal, Uniform)
CLASSES += (BandLayout, EllipticityLikelihoods, Exponential, NormalisedPower, NormalisedSFTs, PolarisationFstat)
CLASSES += (TimingErrors, WindowTimes)
CLASSES += (DualHarmonicAmplitude, DualHarmonicPosterior, DualHarmonicPrior, PosteriorDensity, NoiseEnergy)
"""All public pytrees but named tuples, and those that they hold."""
TUPLES = (Motion, Resampled)
"""Named tuples that public functions take, or that public pytrees hold."""
_REGISTERING = Lock()
FUNCTION = "function"
"""Key of the JSON object that names a function."""


@public
def enable_export() -> None:
    """Let `jax.export` serialize functions whose arguments or results are jfstat's objects.

    Call it before ``serialize``, and in each process before ``jax.export.deserialize``; more calls do nothing. It
    registers all of jfstat's pytrees with `jax.export.register_pytree_node_serialization`. An exported function is for
    data of one shape; arrays are not part of it, and neither is jfstat: where it is called, data and templates are
    given to it. What is no array (names of detectors, sizes) is written as JSON and must be the same when it is called.

    Names of classes are those of this version of jfstat, so read files with the version that wrote them.

    Raises
    ------
    ValueError
        From ``serialize`` if the function of a `PhaseModel` or `TransientWindow` is not one of a module, which could be
        found by its name; from ``deserialize`` if that module was not imported before.

    Examples
    --------
    >>> jfstat.enable_export()
    >>> exported = jax.export.export(jax.jit(jfstat.twoF))(data, point)
    >>> again = jax.export.deserialize(exported.serialize())  # doctest: +SKIP
    >>> float(again.call(data, point))  # doctest: +SKIP
    """
    with _REGISTERING:  # by one thread at a time
        for cls in CLASSES:
            _register(cls)
        for pairs in TUPLES:
            _register_tuple(pairs)


@cache  # JAX refuses to be told twice
def _register(cls: type) -> None:
    from jax.export import register_pytree_node_serialization

    register_pytree_node_serialization(
        cls,
        serialized_name=f"jfstat.{cls.__name__}",
        serialize_auxdata=partial(_written, cls.__name__),
        deserialize_auxdata=partial(_read, cls.__name__),
    )


@cache
def _register_tuple(cls: type) -> None:
    from jax.export import register_namedtuple_serialization

    register_namedtuple_serialization(cls, serialized_name=f"jfstat.{cls.__name__}")


def _written(name: str, static: Any) -> bytes:
    """Return the static part of a class's pytree as JSON."""
    return json.dumps(static, default=partial(_function_name, name)).encode()


def _read(name: str, text: bytes) -> Any:
    """Return the static part of a pytree that `_written` wrote: JSON's arrays as tuples, functions by their names."""
    return _restored(json.loads(text), name)


def _restored(x: Any, name: str) -> Any:
    if isinstance(x, list):
        return tuple(_restored(one, name) for one in x)
    return _function(x[FUNCTION], name) if isinstance(x, dict) else x


def _function_name(name: str, function: Any) -> dict[str, str]:
    """Return the name by which `_function` finds a function again, for JSON."""
    module, path = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    word = f"{module}:{path}"
    if module in sys.modules and path is not None and _found(word) is function:
        return {FUNCTION: word}
    raise ValueError(
        f"the function of a {name}, {shown(function)}, cannot be exported, since no module has it under its name: "
        "define it at the top of a module, or make the object within the function that is exported."
    )


def _function(word: str, name: str) -> Callable[..., Any]:
    """Return the function with a name, from a module that was imported before: nothing is imported for a file."""
    found = _found(word)
    if not callable(found):
        raise ValueError(f"the exported {name} has the function {word!r}, which is not known: import its module first.")
    return found


def _found(word: str) -> Any:
    module, _, path = word.partition(":")
    found: Any = sys.modules.get(module)
    for part in path.split("."):
        found = getattr(found, part, None)
    return found

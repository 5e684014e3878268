"""Define what all kinds of data provide, so that functions need not know which kind they are given."""

from __future__ import annotations

from typing import Protocol

import jax

from jfstat.data.bandseries import Band, Layout
from jfstat.data.observation import Observation
from jfstat.signal.templates import Doppler
from jfstat.signal.times import GPSTime


class HasSegments(Protocol):
    """A pytree that may have a leading axis of segments, such as Observation, FstatData and NarrowData."""

    @property
    def n_segments(self) -> int | None:
        """Length of the axis of segments; None without it."""
        ...


class Sizes(Protocol):
    """Sizes on which the tallies of a search depend: `Layout`, and what stands for it in other data."""

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies of the band."""
        ...

    @property
    def n_fft(self) -> int:
        """Half the number of frequencies whose equal sections are the sub-bands; the band may end before."""
        ...


class Searchable(HasSegments, Protocol):
    """Data that `search` takes: pytrees of arrays that a statistic turns into values at the frequencies of a band."""

    @property
    def observation(self) -> Observation:
        """When and where the detectors observed, and the noise weights."""
        ...

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the detectors."""
        ...

    @property
    def ephemeris(self) -> str:
        """Name of the solar-system ephemeris."""
        ...

    @property
    def tspan(self) -> float | jax.Array:
        """Time from the start of the first SFT to the end of the last, s."""
        ...

    @property
    def fmin(self) -> float | jax.Array:
        """Lowest frequency of the band, Hz."""
        ...

    @property
    def dfreq(self) -> float | jax.Array:
        """Spacing of the frequencies of the band, Hz."""
        ...

    @property
    def layout(self) -> Sizes:
        """Sizes of the band."""
        ...

    @property
    def samples(self) -> jax.Array:
        """The values that distinguish one data set from another."""
        ...


class HasFaFb(HasSegments, Protocol):
    """Data that compute Fa and Fb of single templates: FstatData, NarrowData and BlockSpectra."""

    @property
    def observation(self) -> Observation:
        """When and where the detectors observed, and the noise weights."""
        ...

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the detectors."""
        ...

    def fa_fb(self, point: Doppler) -> tuple[jax.Array, jax.Array]:
        """Compute Fa and Fb of each detector, (D,) complex128, with phase zero at mid-time; NaN if it does not fit."""
        ...


class Data(HasFaFb, Protocol):
    """Data that users pass to functions: FstatData and NarrowData."""

    @property
    def reftime(self) -> int | float | GPSTime:
        """Reference time of templates without one, GPS s."""
        ...

    def harmonic_sums(self, point: Doppler) -> jax.Array:
        """Compute the matched filters with the five sidereal harmonics, (D, 5) complex128; NaN if it does not fit."""
        ...

    def fits(self, point: Doppler) -> jax.Array:
        """Return whether a template fits the data, () bool; traceable."""
        ...

    def check(self, point: Doppler) -> None:
        """Raise a ValueError if a concrete template does not fit the data."""
        ...

    @property
    def for_one_template(self) -> Data:
        """Data with only the parts that `fa_fb` needs."""
        ...


class Prepared(Protocol):
    """Parts of FstatData on which Fa, Fb and the check of a template depend."""

    @property
    def observation(self) -> Observation: ...

    @property
    def series(self) -> jax.Array: ...

    @property
    def band(self) -> Band: ...

    @property
    def layout(self) -> Layout: ...

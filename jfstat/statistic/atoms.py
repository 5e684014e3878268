"""Compute atoms: Fa, Fb and the antenna matrix of each slice of time, which give 2F of any part of the data."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.checks import check_data, check_point
from jfstat.data.direct import Pieces, slice_sums
from jfstat.data.fit import nan_unless_fit
from jfstat.data.fstatdata import FstatData
from jfstat.data.narrowdata import NarrowData
from jfstat.data.observation import refuse_windowed
from jfstat.data.slices import USUAL_DURATION, Slices, block_slices, matrices, regular_slices, times_traced
from jfstat.data.slicesizes import AtomSizes, slices_of, traced_block_slices
from jfstat.display import Displayed, Facts, is_known, memory, value_range
from jfstat.geometry.trajectory import Trajectory
from jfstat.public import public
from jfstat.signal.templates import Doppler, template_of_any
from jfstat.statistic.combine import AntennaMatrix, two_f
from jfstat.validation import DurationLike, positive_seconds, shown


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class Atoms(Displayed):
    """Fa, Fb and the antenna matrix of each slice of time and detector, at one template; made by `jfstat.atoms`.

    A pytree. D detectors, K slices, which are the same for all detectors. Values are in LALSuite's normalisation and
    add up over slices: 2F of any set of slices follows from the sums over the set.

    Attributes
    ----------
    Fa, Fb : (D, K) complex128
        Contributions to the two matched filters, with phase zero at the mid-time of all data.
    A, B, C : (D, K) float64
        Contributions to the antenna matrix, with noise weights; zero where a detector has no data.
    start, end : (K,) float64
        Start and end of the slices, s since the epoch.
    epoch : () int64
        GPS time from which `start` and `end` count, s.
    detectors : tuple of str, static
    """

    Fa: jax.Array
    Fb: jax.Array
    A: jax.Array
    B: jax.Array
    C: jax.Array
    start: jax.Array
    end: jax.Array
    epoch: jax.Array
    detectors: tuple[str, ...] = field(metadata=dict(static=True))

    @property
    def gps(self) -> jax.Array:
        """GPS times at which the slices start, (K,) float64."""
        return self.start + self.epoch.astype(jnp.float64)

    @property
    def twoF(self) -> jax.Array:
        """2F of all slices and detectors, () float64, as `jfstat.twoF` of the data."""
        return two_f(*self._total)

    @property
    def twoF_per_detector(self) -> jax.Array:
        """2F of all slices of each detector, (D,) float64."""
        return two_f(jnp.sum(self.Fa, axis=1), jnp.sum(self.Fb, axis=1), _matrix(self, lambda x: jnp.sum(x, axis=1)))

    @property
    def cumulative_twoF(self) -> jax.Array:
        """2F of all detectors and the slices up to the end of each, (K,) float64.

        The value is 4 as long as the antenna matrix is degenerate.
        """
        fa, fb = (jnp.cumsum(jnp.sum(x, axis=0)) for x in (self.Fa, self.Fb))
        return two_f(fa, fb, _matrix(self, lambda x: jnp.cumsum(jnp.sum(x, axis=0))))

    @property
    def cumulative_twoF_per_detector(self) -> jax.Array:
        """2F of each detector alone and the slices up to the end of each, (D, K) float64."""
        fa, fb = (jnp.cumsum(x, axis=1) for x in (self.Fa, self.Fb))
        return two_f(fa, fb, _matrix(self, lambda x: jnp.cumsum(x, axis=1)))

    @property
    def expected_twoF(self) -> jax.Array:
        """Mean growth of `cumulative_twoF` for a persistent signal that ends at the final 2F, (K,) float64.

        This is 4 + rho^2 of the slices up to the end of each, with rho^2 = A^mu M_mu_nu A^nu for the amplitudes
        estimated from all slices and the antenna matrix of the slices counted, scaled such that the last value is the
        final 2F, or 4 if 2F is less.
        """
        return self._expected(_matrix(self, lambda x: jnp.cumsum(jnp.sum(x, axis=0))))

    @property
    def expected_twoF_per_detector(self) -> jax.Array:
        """Mean growth of 2F of each detector for a signal in all of them, (D, K) float64.

        The last value need not equal the detector's 2F."""
        return self._expected(_matrix(self, lambda x: jnp.cumsum(x, axis=1)))

    @property
    def _total(self) -> tuple[jax.Array, jax.Array, AntennaMatrix]:
        return jnp.sum(self.Fa), jnp.sum(self.Fb), _matrix(self, jnp.sum)

    def _expected(self, part: AntennaMatrix) -> jax.Array:
        """Return 4 + rho^2 for antenna matrices of parts of the data."""
        fa, fb, (A, B, C) = self._total
        final = two_f(fa, fb, AntennaMatrix(A, B, C))
        # the estimated complex amplitudes of a and b, up to a factor that cancels
        one, other = (jnp.stack([x.real, x.imag]) for x in (fa, fb))
        first, second = B * one - C * other, A * other - C * one
        power_a, power_b, cross = jnp.sum(first**2), jnp.sum(second**2), jnp.sum(first * second)
        rho2 = part.A * power_a + part.B * power_b + 2 * part.C * cross
        whole = A * power_a + B * power_b + 2 * C * cross
        return 4 + jnp.maximum(final - 4, 0.0) * rho2 / jnp.where(whole > 0, whole, 1.0)

    def _facts(self) -> Facts:
        shape = np.shape(self.Fa)
        title = f"Atoms of {', '.join(self.detectors)}: {shape[-1] if shape else '?'} slices"
        if not is_known(self.start, self.end, self.epoch, self.Fa) or len(shape) != 2 or not shape[-1]:
            return Facts(title, [])
        start, end = np.asarray(self.start), np.asarray(self.end)
        first, last = (int(self.epoch) + float(x) for x in (start.min(), end.max()))
        rows = [("span", f"GPS {first:.0f} to {last:.0f}"), ("slices", f"{value_range(end - start, 's')} long")]
        return Facts(title, [*rows, ("memory", memory(self))], many=True)


def _matrix(atoms: Atoms, reduce) -> AntennaMatrix:
    return AntennaMatrix(*(reduce(x) for x in (atoms.A, atoms.B, atoms.C)))


def check_atoms(atoms: object) -> None:
    """Raise a TypeError unless the argument is the atoms of one template, a ValueError for a stack."""
    if not isinstance(atoms, Atoms):
        raise TypeError(f"atoms must be Atoms from jfstat.atoms, not {shown(atoms)}: compute them first.")
    if np.ndim(atoms.Fa) != 2:
        raise ValueError("atoms are a stack, but those of one template are wanted: use jax.vmap.")


@public(point=template_of_any)
def atoms(
    data: FstatData | NarrowData,
    point: Doppler,
    duration: DurationLike | None = None,
    *,
    sizes: AtomSizes | None = None,
) -> Atoms:
    """Compute Fa, Fb and the antenna matrix of each slice of time and detector at one template.

    Atoms are exact: they are the terms of the sums of `fstat`, with timing and antenna patterns at every sample, and
    add up to its values to rounding. LALSuite's atoms come from Demod, one for each SFT with the antenna patterns at
    its mid-time, and lose some per cent of rho^2. Works under jit, vmap and grad in `point`; with `sizes`, and for
    narrow data, `data` may be traced too.

    Parameters
    ----------
    data : FstatData or NarrowData
        ``prepare(..., filters=False)`` is enough.
    point : Doppler or Row
        One template, scalar fields.
    duration : float or Quantity, optional
        Duration of the slices, counted from the start of the data, s; 1800 s by default, and at least two samples of
        the prepared series. A sample belongs to one slice, and the antenna matrix is computed from just these samples.
        Samples in a gap of a detector, into which the low-pass rings, belong to the nearest data. Narrow data are sums
        over blocks, which cannot be cut: their slices are the blocks, which ``narrow(..., max_block=)`` makes short,
        and `duration` must be None.
    sizes : AtomSizes, optional
        From `atom_sizes`, instead of `duration`, for prepared data that are traced: for ``jax.vmap`` over realisations
        of the noise. Where values are traced, data with other times than those of the sizes make the result NaN.

    Returns
    -------
    Atoms

    Raises
    ------
    TypeError
        If `data` or `point` is of another kind.
    ValueError
        As `twoF`; if `duration` is too short for the series or given for narrow data, or `sizes` are of other data; or
        if prepared data are traced and there are no `sizes`.

    Examples
    --------
    >>> parts = jfstat.atoms(data, point, duration=3600)
    >>> parts.cumulative_twoF.shape
    (12,)
    """
    check_data(data, or_narrow=True)
    check_point(data, point)
    refuse_windowed(data.observation)
    if duration is not None:
        duration = positive_seconds(duration, "duration")
    if sizes is not None:
        if duration is not None:
            raise ValueError("duration does not go with sizes, which were made for one: leave it out.")
        _check_sizes(data, point, sizes)
        return _sized_atoms(data.for_one_template, point, sizes)  # type: ignore[arg-type]
    if isinstance(data, NarrowData):
        if duration is not None:
            raise ValueError(
                "duration does not go with narrow data, whose slices are their blocks: give jfstat.narrow max_block."
            )
        if times_traced(data):
            return atoms_of(data, point, traced_block_slices(data), None)
        with jax.ensure_compile_time_eval():
            slices = block_slices(data)
        return compiled_atoms(data, point, slices, None)
    if times_traced(data):
        raise ValueError(
            "data must not be traced, since the number of slices follows from their times: give jfstat.atoms sizes= "
            "from jfstat.atom_sizes, called outside."
        )
    with jax.ensure_compile_time_eval():
        slices, pieces = regular_slices(data, point, USUAL_DURATION if duration is None else duration)
    return compiled_atoms(data.for_one_template, point, slices, pieces)


def atoms_of(data: FstatData | NarrowData, point: Doppler, slices: Slices, pieces: Pieces | None) -> Atoms:
    """Compute `atoms` for given slices, without checks; traceable. Prepared data need `pieces`."""
    observation = data.observation
    a, b = observation.pattern_coefficients(point)
    if isinstance(data, NarrowData):
        fa, fb = data.fa_fb_of_blocks(point)
    else:
        fa, fb = _prepared_sums(data, point, slices, pieces)
    return Atoms(
        fa,
        fb,
        *matrices(jnp.asarray(slices.moments), a, b),
        start=jnp.asarray(slices.start),
        end=jnp.asarray(slices.end),
        epoch=observation.epoch,
        detectors=observation.detectors,
    )


compiled_atoms = jax.jit(atoms_of)


def _check_sizes(data: FstatData | NarrowData, point: Doppler, sizes: object) -> None:
    """Raise an error unless sizes were made for data and a template like these."""
    if not isinstance(sizes, AtomSizes):
        raise TypeError(f"sizes must be AtomSizes from jfstat.atom_sizes, not {shown(sizes)}: make them first.")
    if isinstance(data, NarrowData):
        raise ValueError("sizes do not go with narrow data, whose slices are their blocks: leave them out.")
    if sizes.orbit != (point.orbit is not None):
        raise ValueError("sizes and point must both be with an orbit or without: make other sizes.")
    if sizes.block != data.layout.block_of(sizes.orbit):
        raise ValueError("sizes were made for data with timing blocks of another length: make other sizes.")
    sizes.times.check(data)


@jax.jit
def _sized_atoms(data: FstatData, point: Doppler, sizes: AtomSizes) -> Atoms:
    """Compute `atoms` for given sizes; NaN if these do not suit the data."""
    found = atoms_of(data, point, slices_of(data.observation, sizes), sizes.pieces)
    good = jnp.where(sizes.times.suit(data), 1.0, jnp.nan)
    parts = {name: getattr(found, name) for name in ("Fa", "Fb", "A", "B", "C")}
    return replace(found, **{name: x * good.astype(x.dtype) for name, x in parts.items()})


def _prepared_sums(
    data: FstatData, point: Doppler, slices: Slices, pieces: Pieces | None
) -> tuple[jax.Array, jax.Array]:
    """Compute Fa and Fb of each detector and slice, (D, K) complex128; NaN if the template does not fit the data."""
    source, observation = data.observation.source(point), data.observation
    block = data.layout.block_of(point.orbit is not None)
    n_slices = slices.start.shape[0]

    def one(detector: tuple[jax.Array, Trajectory, jax.Array, Pieces]) -> tuple[jax.Array, jax.Array]:
        return slice_sums(data.band, block, source, *detector, n_slices=n_slices)

    fits = nan_unless_fit(data, point).astype(jnp.complex128)
    fa, fb = jax.lax.map(one, (data.series, observation.trajectory, observation.response, pieces))
    return fa * fits, fb * fits

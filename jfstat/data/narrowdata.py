"""Define narrow data, the data around one template compressed to some thousand samples, and compute their Fa and Fb."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import plain_number, plain_time
from jfstat.data.observation import Observation, span_rows
from jfstat.display import Displayed, Facts, brief, is_known, memory, value_range
from jfstat.geometry.nearby import Sites, phase_difference
from jfstat.maths.arrays import PRECISE, any_traced
from jfstat.maths.chebyshev import series_from_values
from jfstat.maths.turns import turn64
from jfstat.public import public
from jfstat.signal.possible import check_possible, physical
from jfstat.signal.templates import Doppler, template_of_any
from jfstat.signal.times import GPSTime

NODES = 16
"""Number of Chebyshev nodes of a block, K."""
TAIL = 3e-5
"""Largest size of the last two Chebyshev coefficients of a template's phase factor in a block, beyond which the
template is out of reach; the neglected coefficients are then some thirty times smaller.
"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True, repr=False, eq=False)
class NarrowData(Displayed):
    """Data for templates close to one, the centre; made by `jfstat.narrow`.

    A pytree, to be given to jitted functions as FstatData are, that can be used instead of FstatData for single
    templates, with the same results within its reach. D detectors, B blocks of time that hold data, K Chebyshev nodes
    per block. Narrow data of the same data and shape may be stacked, for vmap.

    Attributes
    ----------
    observation : Observation
        When and where the detectors observed, and the noise weights.
    samples : (D, 5, B, K) complex128
        The data without the centre's phase, times each of the five sidereal harmonics, summed such that
        ``sum(samples * g(time))`` is the integral of their product with g, for any g that is a polynomial in each
        block. In noise they are Gaussian with mean zero and covariances that are fixed by the times and weights of the
        data: large within a block, and small between blocks and between detectors. Draw `noise_like` some hundred
        times to measure them.
    sites : Sites
        Detectors at the nodes, (D, B, K).
    centre : Doppler
        The central template.
    reach : () float64
        How far a template's frequency in the detector's frame may differ from the centre's at any time, Hz.
    """

    observation: Observation
    samples: jax.Array
    sites: Sites
    centre: Doppler
    reach: jax.Array

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the detectors."""
        return self.observation.detectors

    @property
    def n_segments(self) -> int | None:
        """Length of the leading axis of a stack, one for each segment; None for narrow data without one."""
        return self.observation.n_segments

    @property
    def reftime(self) -> int | float | GPSTime:
        """Reference time of templates without one, GPS s; a GPSTime if traced or stacked."""
        return plain_time(self.observation.reftime)

    @property
    def fmin(self) -> float | jax.Array:
        """Lowest frequency of templates that differ from the centre in frequency alone and are within reach, Hz.

        That is ``centre.fkdot[0] - reach``; other templates are within reach if their frequency at the detectors is
        close enough to the centre's at all times, see `covers`. A float, or traced inside a transformation; for a
        stack, the lowest of all.
        """
        return plain_number(self._beside_centre(-1), np.min)

    @property
    def fmax(self) -> float | jax.Array:
        """Highest frequency of templates that differ from the centre in frequency alone and are within reach, Hz.

        See `fmin`.
        """
        return plain_number(self._beside_centre(1), np.max)

    def _beside_centre(self, side: int) -> jax.Array:
        """Return the frequency at the reach below the centre, -1, or above it, 1, Hz; by NumPy if it is known."""
        f, reach = self.centre.fkdot, self.reach
        if is_known(f, reach):
            return np.asarray(f)[..., 0] + side * np.asarray(reach)  # type: ignore[return-value]
        return f[..., 0] + side * reach

    def fa_fb(self, point: Doppler) -> tuple[jax.Array, jax.Array]:
        """Compute Fa and Fb of each detector at ``point.fkdot``, (D,) complex128; NaN beyond the data's reach.

        The template's phase is zero at the data's mid-time.
        """
        return self._with_patterns(self.harmonic_sums(point), point)

    def harmonic_sums(self, point: Doppler) -> jax.Array:
        """Compute the matched filters with the five sidereal harmonics, (D, 5) complex128; see `fa_fb`.

        The matched filter with any antenna pattern is a sum of these.
        """
        cos, sin = self._phase_factor(point)
        inside = jnp.where(self._followed(cos, sin) & physical(point), 1.0, jnp.nan)
        return jnp.einsum("dhbk,dbk->dh", self.samples, jax.lax.complex(cos, -sin)) * inside.astype(jnp.complex128)

    def fa_fb_of_blocks(self, point: Doppler) -> tuple[jax.Array, jax.Array]:
        """Compute the contribution of each block to `fa_fb`, (D, B) complex128."""
        cos, sin = self._phase_factor(point)
        inside = jnp.where(self._followed(cos, sin) & physical(point), 1.0, jnp.nan)
        sums = jnp.einsum("dhbk,dbk->bdh", self.samples, jax.lax.complex(cos, -sin)) * inside.astype(jnp.complex128)
        fa, fb = jax.vmap(lambda own: self._with_patterns(own, point))(sums)
        return fa.T, fb.T

    @property
    def central_fa_fb(self) -> tuple[jax.Array, jax.Array]:
        """Fa and Fb of the central template, whose phase factor is 1."""
        return self._with_patterns(jnp.sum(self.samples, axis=(2, 3)), self.centre)

    def _with_patterns(self, sums: jax.Array, point: Doppler) -> tuple[jax.Array, jax.Array]:
        """Return Fa and Fb from sums with each of the harmonics, (D, 5)."""
        a, b = self.observation.pattern_coefficients(point)
        return jnp.sum(a.astype(sums.dtype) * sums, axis=1), jnp.sum(b.astype(sums.dtype) * sums, axis=1)

    def turns(self, shifts: jax.Array) -> jax.Array:
        """Return phase factors at the nodes for `shifts` of frequency, (F,) Hz: (B * K, F) complex64."""
        # the nodes of all detectors have the same times
        time = (self.sites.time[0] - self.observation.middle).reshape(-1)
        cos, sin = turn64(time[:, None] * shifts[None])
        return jax.lax.complex(cos, -sin).astype(jnp.complex64)

    def turned_fa_fb(self, point: Doppler, turns: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Compute Fa and Fb, (F,) complex64, with frequencies at the detectors raised by the shifts of `turns`.

        This is for searches around a template. It is much cheaper than `fa_fb` for each frequency, because templates
        share the phase factors and one product of matrices does the sums; at twice the reach it is right to some per
        cent.
        """
        cos, sin = self._phase_factor(point)
        a, b = self.observation.pattern_coefficients(point)
        patterns, own = (x.astype(jnp.complex64) for x in (jnp.stack([a, b]), self.samples))
        samples = jnp.einsum("cdh,dhbk->cdbk", patterns, own, precision=PRECISE)
        turned = jnp.sum(samples * jax.lax.complex(cos, -sin).astype(jnp.complex64)[None], axis=1).reshape(2, -1)
        sums = jnp.matmul(turned, turns, precision=PRECISE)
        return sums[0], sums[1]

    def fits(self, point: Doppler) -> jax.Array:
        """Return whether a template is possible and lies within the data's reach, () bool.

        A template is within reach if the blocks' polynomials, which are made for differences in frequency up to
        `reach`, follow its phase relative to the centre's.
        """
        return self._followed(*self._phase_factor(point)) & physical(point)

    def check(self, point: Doppler) -> None:
        """Raise a ValueError if a template does not fit the data; traced values are not checked, see `fits`."""
        if (point.orbit is None) != (self.centre.orbit is None):
            raise ValueError("point and the centre of the narrow data must both have an orbit, or none: make others.")
        if (point.motion is None) != (self.centre.motion is None):
            raise ValueError("point and the centre of the narrow data must both have a motion, or none: make others.")
        if any_traced(self, point):
            return
        with jax.ensure_compile_time_eval():
            if not bool(physical(point)):
                check_possible(point)
            covered = bool(_fits(self, point))
        if not covered:
            raise ValueError(
                f"point lies out of reach of the narrow data: its frequency leaves the centre's by more than some "
                f"{float(self.reach):.3g} Hz; call jfstat.narrow around it, or with a larger reach."
            )

    @property
    def for_one_template(self) -> NarrowData:
        """This object itself, since single templates need all of its parts."""
        return self

    def _phase_factor(self, point: Doppler) -> tuple[jax.Array, jax.Array]:
        """Return real and imaginary part of exp(2 pi i (phase of `point` - of centre)) at the nodes, (D, B, K)."""
        centre, other = self.observation.source(self.centre), self.observation.source(point)
        return turn64(phase_difference(self.sites, centre, other))

    def _followed(self, cos: jax.Array, sin: jax.Array) -> jax.Array:
        """Return whether the last Chebyshev coefficients of a phase factor are small, () bool.

        They must be small in every block or, with a phase model, in the root mean square over blocks, since a glitch is
        a kink in one of them.
        """
        last = jnp.asarray(series_from_values(NODES)[-2:].T)
        size = jnp.abs(jax.lax.stop_gradient(cos) @ last) + jnp.abs(jax.lax.stop_gradient(sin) @ last)
        if self.centre.model is not None:
            held = jnp.any(self.samples != 0, axis=(-3, -1))  # the last block may be repeated, without data
            n_held = jnp.maximum(jnp.sum(held, dtype=jnp.float64), 1.0)
            squares = jnp.where(held, jnp.max(size, axis=-1), 0.0) ** 2
            return jnp.sqrt(jnp.sum(squares) / n_held) <= TAIL
        return jnp.max(size) <= TAIL

    def _facts(self) -> Facts:
        rows, shape = span_rows(self.observation), np.shape(self.samples)
        if rows and is_known(self.reach):
            reach = value_range(self.reach, "Hz")
            rows.append(("reach", f"{reach} about the centre: {self.fmin:.10g} to {self.fmax:.10g} Hz"))
        if len(shape) >= 2:
            rows.append(("blocks", f"{shape[-2]} of {shape[-1]} nodes"))
        title = f"NarrowData of {', '.join(self.detectors)}"
        return Facts(title, [*rows, ("centre", brief(self.centre)), ("memory", memory(self))], many=True)


@jax.jit
def _fits(data: NarrowData, point: Doppler) -> jax.Array:
    return data.fits(point)


@public(point=template_of_any)
def covers(data: NarrowData, point: Doppler) -> jax.Array:
    """Return whether a template lies within the reach of narrow data; see `NarrowData.fits`.

    Parameters
    ----------
    data : NarrowData
    point : Doppler or Row
        One template, scalar fields.

    Returns
    -------
    () bool

    Raises
    ------
    TypeError
        If `data` or `point` is of another kind.

    Examples
    --------
    >>> near = jfstat.narrow(data, point)
    >>> bool(jfstat.covers(near, point))
    True
    """
    if not isinstance(data, NarrowData):
        raise TypeError(f"data must be NarrowData from jfstat.narrow, not {type(data).__name__}.")
    if not isinstance(point, Doppler):
        raise TypeError(f"point must be a jfstat.Doppler, not {type(point).__name__}: build one first.")
    return _fits(data, point)

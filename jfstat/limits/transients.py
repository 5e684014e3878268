"""Upper limits on transient signals by injections into the data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np

from jfstat import kinds
from jfstat.data.checks import check_data
from jfstat.data.fstatdata import FstatData
from jfstat.data.slicesizes import AtomSizes, atom_sizes
from jfstat.limits.analytic import checked_mismatch, checked_threshold
from jfstat.limits.injections import NEVER, UpperLimit, check_enough, settled, signal_fa_fb
from jfstat.limits.population import MOST_SIGNALS, Population
from jfstat.maths.arrays import with_axes
from jfstat.public import host
from jfstat.signal.templates import Amplitude, Doppler
from jfstat.signal.transientwindow import TransientWindow
from jfstat.statistic.atoms import Atoms, atoms
from jfstat.statistic.combine import AntennaMatrix
from jfstat.statistic.transients import TransientRange, Windows, compiled_map
from jfstat.validation import NumberLike, probability, whole

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

COVERED = 1e-12
"""Least 2F of a signal in a window, relative to its 2F in all data or so, that is more than rounding."""
LEAST_MATRIX = 1e-300
"""Avoids divisions by 0 without data."""


@dataclass(frozen=True, repr=False, eq=False)
class TransientUpperLimit(UpperLimit):
    """An upper limit on transient signals and the injections behind it; see `jfstat.transient_upper_limit`.

    Attributes
    ----------
    windows : TransientWindow
        Windows of the injections, a stack of n. Other attributes are as for `UpperLimit`; `threshold` is one on the
        largest 2F of the range of windows.
    """

    windows: TransientWindow


@host(population=kinds.instance(Population, or_none=True), windows=kinds.instance(TransientRange))
def transient_upper_limit(
    data: FstatData,
    threshold: NumberLike,
    windows: TransientRange,
    population: Population | None = None,
    *,
    confidence: NumberLike = 0.95,
    mismatch: ArrayLike = 0.0,
    injections: int = 1000,
    seed: int = 0,
) -> TransientUpperLimit:
    """Compute the h0 at which transient signals injected into the data exceed a threshold with a given probability.

    This is `upper_limit` for searches with `Transient`. Each signal has a window of its own, of the range's shape, with
    t0 and tau uniform between their least and largest values in the range. Its Fa and Fb in each slice of time follow
    from its amplitudes, the slice's antenna matrix (Prix, Giampanis & Messenger 2011, Phys. Rev. D 84, 023007) and the
    mean of its window, and are added to those of the data. 2F of each window of the range is then a quadratic function
    of h0, which maps of the data, the signal and both tell exactly. The signal is detected from the least h0 on at
    which any of them exceeds the threshold. What the steps of t0 and tau cost is therefore included.

    Parameters
    ----------
    data : FstatData
        Prepared data, without segments.
    threshold : float
        Value of the largest 2F of all windows (``max_twoF``) above which an injection counts as detected, such as that
        of the loudest candidate of a search that ranks by 2F. It is not log10 B_tS/G.
    windows : TransientRange
        Windows of the search.
    mismatch : float or array_like
        As for `upper_limit`. A signal that is shorter than the data loses less than that: its frequency is the better
        known, the longer it lasts.
    population, confidence, injections, seed
        As for `upper_limit`. Frequencies and positions of the signals do not depend on their windows.

    Returns
    -------
    TransientUpperLimit

    Raises
    ------
    TypeError
        If `data`, `windows` or `population` is of another kind.
    ValueError
        As `upper_limit`; or if `data` have segments.

    Notes
    -----
    h0 is the amplitude where the window is 1: of an exponential one, at its start. A signal whose window lies in a gap,
    or outside of the data, is not detected at any h0; if too many are not, there is no limit, and a ValueError says so.
    An injection whose data exceed the threshold by themselves may be detected below its critical h0, too. The neglected
    effects are those of `upper_limit`.

    Examples
    --------
    >>> windows = jfstat.TransientRange("rectangular", start + 3600.0 * np.arange(6), [10800.0, 21600.0])
    >>> limit = jfstat.transient_upper_limit(data, 60.0, windows, injections=80)
    >>> 3e-25 < limit.h0 < 3e-24
    True
    """
    check_data(data)
    least = checked_threshold(threshold)
    wanted = probability(confidence, "confidence", "give one such as 0.95")
    chosen = population or Population()
    n = whole(injections, "injections", 10, MOST_SIGNALS)
    frequencies = np.asarray(data.frequencies)
    points, amplitudes = chosen.draw(n, seed, freq=(frequencies.min(), frequencies.max()))
    signals = _drawn_windows(windows, n, seed)
    kept = np.sqrt(1 - checked_mismatch(mismatch, n, seed))
    check_enough(n, wanted)
    sizes = atom_sizes(data, jax.tree.map(lambda x: x[0], points), windows.duration)
    every = Windows(windows.t0, windows.tau, windows.shape, windows.end)
    critical, loudest = _critical(data.for_one_template, points, amplitudes, signals, kept, least, sizes, every)
    critical, h0, error = settled(critical, loudest, wanted, least)
    return TransientUpperLimit(h0, error, wanted, least, critical, points, amplitudes, signals)


def _drawn_windows(windows: TransientRange, n: int, seed: int) -> TransientWindow:
    """Draw windows of n signals, with t0 and tau uniform between the ends of a range."""
    rng = np.random.default_rng([whole(seed, "seed"), 2])
    t0, tau = (rng.uniform(np.min(x), np.max(x), n) for x in (np.asarray(windows.t0), np.asarray(windows.tau)))
    end = None if isinstance(windows.shape, str) else windows.end
    return TransientWindow(windows.shape, t0, tau, end=end)


@jax.jit
def _critical(
    data: FstatData,
    points: Doppler,
    amplitudes: Amplitude,
    signals: TransientWindow,
    kept: jax.Array,
    threshold: jax.Array,
    sizes: AtomSizes,
    windows: Windows,
) -> tuple[jax.Array, jax.Array]:
    """Return the least h0 from which on each injection is detected, and the largest 2F of the data there: (n,) each."""

    def one(injection: tuple[Doppler, Amplitude, TransientWindow, jax.Array]) -> tuple[jax.Array, jax.Array]:
        point, amplitude, window, kept = injection
        own = atoms(data, point, sizes=sizes)
        shape = kept * window.mean(own.start, own.end, own.epoch)
        fa, fb = signal_fa_fb(data.observation, point, amplitude, AntennaMatrix(own.A, own.B, own.C))
        fa, fb = (x * with_axes(shape, x.ndim).astype(x.dtype) for x in (fa, fb))
        alone = compiled_map(replace(own, Fa=fa, Fb=fb), windows).twoF
        nothing = compiled_map(own, windows).twoF
        # where the antenna matrix cannot be inverted 2F is 4, whatever the data; elsewhere 0 for no data
        invertible = compiled_map(_sum(replace(own, Fa=0 * fa, Fb=0 * fb), fa, fb, jnp.zeros(())), windows).twoF < 2
        # sums over exponential windows leave residues of signals that the windows do not cover
        total = jnp.sum(jnp.abs(fa) ** 2 + jnp.abs(fb) ** 2) / jnp.maximum(jnp.sum(own.A + own.B), LEAST_MATRIX)
        seen = invertible & (alone > COVERED * total)
        # an amplitude at which data and signal are alike, so that their cross term is precise
        scale = jnp.sqrt(threshold / jnp.max(jnp.where(seen, alone, COVERED * total), initial=LEAST_MATRIX))
        both = compiled_map(_sum(own, fa, fb, scale), windows).twoF
        signal = jnp.where(seen, alone, 1.0)
        cross = jnp.where(seen, 0.5 * (both - nothing - scale**2 * alone) / scale, 0.0)
        excess = nothing - threshold
        discriminant = cross**2 - excess * signal
        size = jnp.sqrt(jnp.maximum(discriminant, 0.0))
        # the larger root, without cancellation
        upper = jnp.where(cross > 0, -excess / jnp.where(cross > 0, size + cross, 1.0), (size - cross) / signal)
        root = jnp.where(seen, upper, jnp.where(excess > 0, 0.0, NEVER))
        each = jnp.where(seen & (discriminant < 0), 0.0, jnp.maximum(root, 0.0))
        return jnp.min(each), jnp.max(nothing)

    return jax.lax.map(one, (points, amplitudes, signals, kept))


def _sum(own: Atoms, fa: jax.Array, fb: jax.Array, h0: jax.Array) -> Atoms:
    """Return the atoms of the data with a signal of strength h0."""
    factor = h0.astype(fa.dtype)
    return replace(own, Fa=own.Fa + factor * fa, Fb=own.Fb + factor * fb)

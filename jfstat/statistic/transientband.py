"""Compute a transient signal's map at all frequencies of a band: the largest 2F of its windows, or a Bayes factor.

A window's Fa and Fb are sums over slices of the resampled series. One short Fourier transform of each slice gives all
frequencies; with sums up to each edge any rectangular window is then a difference of two rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import FLOAT32
from jfstat.data.slices import matrices, slice_moments
from jfstat.maths.arrays import PRECISE
from jfstat.maths.turns import turn
from jfstat.signal.templates import Doppler
from jfstat.signal.transientwindow import Shape, window_mean
from jfstat.statistic.combine import AntennaMatrix, quadratic_form
from jfstat.statistic.resample import grid_samples
from jfstat.statistic.transients import TransientRange

TILE = 8
"""Number of starts and of ends of rectangular windows that are combined at a time."""
TOGETHER = 16
"""Number of windows of other shapes that are computed at a time."""
ROUNDING = 1e-6
"""Time difference below which two times count as one, s."""
RINGING = 16
"""Number of samples beyond the ends of the data that belong to the data, because the low-pass rings into them."""
TRANSFORM_BYTES = 3 * 2 * 2 * FLOAT32
"""Memory of a slice's transforms for each of their entries, bytes: transforms of two series, and two temporary copies.
"""
MOST_PAIRS = 1 << 24
"""Largest number of pairs of a start and an end for which rectangular windows are computed as pairs."""


class Kind(NamedTuple):
    """Quantity to compute from a map of windows; hashable.

    Attributes
    ----------
    shape, end
        Shape and end of the windows, see `TransientWindow`.
    bayes : bool
        False for the largest 2F of the windows; True for 2 ln of the mean of exp(F) over them, of which log10 B_tS/G is
        a linear function, see `TransientMap.log10_bayes_factor`.
    """

    shape: Shape
    end: float
    bayes: bool


class Tiles(NamedTuple):
    """Rectangular windows as pairs of a start and an end, in square tiles.

    Attributes
    ----------
    starts, ends : (n,) int32, (m,) int32
        Edges of slices; whole numbers of tiles, padded.
    places : (T, 2) int32
        Position of each tile that holds windows, among tiles of starts and of ends.
    counts : (T, TILE, TILE) float32
        Number of windows with this start and this end; those beyond the data end with it.
    """

    starts: Any
    ends: Any
    places: Any
    counts: Any


class Weights(NamedTuple):
    """Windows of any shape, in groups of `TOGETHER`; the last group is filled up.

    Attributes
    ----------
    t0, tau : (G, TOGETHER) float64
        s since the epoch, s.
    counts : (G, TOGETHER) float32
        1, and 0 for padding.
    """

    t0: Any
    tau: Any
    counts: Any


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class TransientBand:
    """Prepared data with the windows of a transient signal, from which `window_values` makes the map at each frequency.

    Attributes
    ----------
    data : FstatData
    edges : (S + 1,) float64
        Edges of the slices, s since the epoch. The first and the last may lie beyond the data by their ringing.
    moments : (D, S, 5, 5) float64
        Moments of the sidereal harmonics in each slice, see `slice_moments`.
    windows : Tiles or Weights
    n_empty : () float64
        Windows that hold no slice, whose 2F is 4.
    n_windows : () float64
    length : int, static
        Samples of the slices' transforms, a divisor of the samples of the series' transform at all frequencies.
    residues : int, static
        Number of residues computed at a time, of the frequencies modulo the number of bins between two bins of a
        slice's transform.
    """

    data: FstatData
    edges: jax.Array
    moments: jax.Array
    windows: Tiles | Weights
    n_empty: jax.Array
    n_windows: jax.Array
    length: int = field(metadata=dict(static=True))
    residues: int = field(metadata=dict(static=True))

    @property
    def layout(self) -> Any:
        """Layout of the data."""
        return self.data.layout

    @property
    def detectors(self) -> tuple[str, ...]:
        """Names of the detectors."""
        return self.data.detectors


def transient_band(data: FstatData, transient: TransientRange, most_bytes: int) -> TransientBand:
    """Return the data with the windows of a range; concrete values only.

    Parameters
    ----------
    data : FstatData
    transient : TransientRange
    most_bytes : int
        Memory for sums over slices at the frequencies that are computed at a time.
    """
    observation = data.observation
    epoch, span = int(observation.epoch), float(observation.tspan)
    begin = float(observation.middle) - 0.5 * span
    end = begin + span
    t0, tau = np.asarray(transient.t0) - epoch, np.asarray(transient.tau)
    dtau = float(data.band.dtau)
    longest = 0.8 * data.layout.n_fft * dtau
    made = rectangular_tiles(t0, tau, begin, end, longest) if transient.shape == "rectangular" else None
    if made is None:
        number = int(np.ceil(span / min(transient.duration, longest) - ROUNDING))
        edges = begin + span * np.arange(number + 1) / number
        windows, n_empty = _weights(t0, tau), 0
    else:
        edges, windows, n_empty = made
    moments = slice_moments(observation, [edges] * len(data.detectors))[:, 1:-1]
    # beyond the data there is only the ringing of the low-pass
    outer = np.where(edges <= begin + ROUNDING, -RINGING * dtau, np.where(edges >= end - ROUNDING, RINGING * dtau, 0.0))
    edges = edges + outer
    # a slice may last longer at the source than at the detectors, by the fastest motion in the pass band
    fmax = float(data.band.fmin + data.band.dfreq * (data.layout.n_frequencies - 1))
    stretched = float(data.band.pass_high) / fmax
    samples = stretched * float(np.max(np.diff(edges))) / dtau + 3
    length = min(n for n in _divisors(2 * data.layout.n_fft) if n >= samples or n == 2 * data.layout.n_fft)
    entries = bytes_per_bin(len(edges)) * len(band_entries(data, length))
    each = max(entries, TRANSFORM_BYTES * len(edges) * length)
    residues = int(np.clip(most_bytes // each, 1, 2 * data.layout.n_fft // length))
    n_windows = float(t0.size * tau.size)
    return TransientBand(
        data, jnp.asarray(edges), jnp.asarray(moments), jax.tree.map(jnp.asarray, windows),
        jnp.asarray(float(n_empty)), jnp.asarray(n_windows), length, residues,
    )  # fmt: skip


def bytes_per_bin(n_edges: int) -> int:
    """Return the memory of the sums over slices at one frequency: series, transforms, their sums, and rows of sums."""
    return 5 * 4 * FLOAT32 * n_edges


def _divisors(n: int) -> list[int]:
    low = [k for k in range(1, int(n**0.5) + 1) if n % k == 0]
    return sorted({*low, *(n // k for k in low)})


def rectangular_tiles(
    t0: np.ndarray, tau: np.ndarray, begin: float, end: float, longest: float
) -> tuple[np.ndarray, Tiles, int] | None:
    """Return edges, tiles and the number of empty windows for rectangular windows, s since the epoch.

    The result is None if the windows have so many different ends that products with weights cost less.
    """
    first = np.clip(t0, begin, end)
    last = np.clip(t0[:, None] + tau, begin, end)
    some = last - first[:, None] > ROUNDING
    n_empty = int(np.sum(~some))
    if n_empty == some.size:
        return np.array([begin, end]), _no_tiles(), n_empty
    times = np.sort(np.concatenate([first[some.any(axis=1)], last[some]]))
    times = times[np.append(True, np.diff(times) > ROUNDING)]
    # few are much longer than others, because all are transformed with the same number of samples
    usual = min(2 * float(np.median(np.diff(times))), longest)
    pieces = np.maximum(np.ceil(np.diff(times) / usual - ROUNDING), 1).astype(int)
    edges = np.concatenate(
        [*(np.linspace(a, b, n, endpoint=False) for a, b, n in zip(times[:-1], times[1:], pieces, strict=True)),
         times[-1:]]
    )  # fmt: skip

    def numbers(t: np.ndarray) -> np.ndarray:
        return np.searchsorted(edges, t - ROUNDING)

    rows, columns = np.nonzero(some)
    starts, ends = numbers(first)[rows], numbers(last[rows, columns])
    step = float(np.diff(tau).min()) if len(tau) > 1 else 0.0
    starts, own_start = _ordered(starts, edges, step)
    ends, own_end = _ordered(ends, edges, step)
    if len(starts) * len(ends) > MOST_PAIRS:
        return None
    counts = np.zeros((len(starts), len(ends)), np.float32)
    np.add.at(counts, (own_start, own_end), 1)
    squares = counts.reshape(len(starts) // TILE, TILE, len(ends) // TILE, TILE).swapaxes(1, 2)
    places = np.argwhere(squares.any(axis=(2, 3))).astype(np.int32)
    if len(places) * TILE**2 > np.sum(some) * len(edges):
        return None
    return edges, Tiles(starts, ends, places, squares[tuple(places.T)]), n_empty


def _ordered(number: np.ndarray, edges: np.ndarray, step: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the different edges, with those a whole number of steps apart together, and the place of each given one.

    The edges are padded to whole tiles by repeating the last.
    """
    own = np.unique(number)
    phase = np.round(np.mod(edges[own] - edges[0] + ROUNDING, step), 3) if step > 0 else np.zeros(len(own))
    order = own[np.lexsort((own, phase))].astype(np.int32)
    place = np.empty(len(edges), int)
    place[order] = np.arange(len(order))
    return np.pad(order, (0, -len(order) % TILE), mode="edge"), place[number]


def _no_tiles() -> Tiles:
    one = np.zeros(TILE, np.int32)
    return Tiles(one, one, np.zeros((0, 2), np.int32), np.zeros((0, TILE, TILE), np.float32))


def _weights(t0: np.ndarray, tau: np.ndarray) -> Weights:
    """Return all pairs of a start and a time scale, in groups."""
    start, scale = (np.broadcast_to(x, (len(t0), len(tau))).ravel() for x in (t0[:, None], tau))
    more = -len(start) % TOGETHER
    start, scale = (np.pad(x, (0, more), mode="edge").reshape(-1, TOGETHER) for x in (start, scale))
    counts = np.pad(np.ones(len(t0) * len(tau), np.float32), (0, more)).reshape(-1, TOGETHER)
    return Weights(start, scale, counts)


def band_entries(data: FstatData, length: int) -> np.ndarray:
    """Return the entries of a slice's transform that lie in the band, in rising order of frequency, for any residue."""
    layout = data.layout
    apart = 2 * layout.n_fft // length
    low = -(layout.n_frequencies // 2)
    first, last = low // apart, (low + layout.n_frequencies - 1) // apart
    return np.arange(first, last + 1)


def slice_series(band: TransientBand, point: Doppler, series: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Return the samples of each slice of a resampled series, (S, 2, length) complex64, and their numbers, (S, length).

    Each sample is at its number modulo `length`, so that transforms have the phases of the whole series. A sample that
    an edge cuts is divided between both slices.

    Parameters
    ----------
    band : TransientBand
    point : Doppler
    series : (2, n) complex64
        Series of a and b.
    """
    edge = grid_samples(band.data, point, band.edges)
    # the number of the first sample of each slice, and the sample at each place
    first = jnp.floor(edge[:-1] + 0.5).astype(jnp.int32)[:, None]
    place = jnp.arange(band.length, dtype=jnp.int32)[None]
    number = first + jnp.mod(place - first, band.length)
    middle = number.astype(jnp.float64)
    inside = jnp.minimum(edge[1:, None], middle + 0.5) - jnp.maximum(edge[:-1, None], middle - 0.5)
    share = jnp.where((number >= 0) & (number < series.shape[1]), jnp.clip(inside, 0.0, 1.0), 0.0).astype(jnp.float32)
    found = series[:, jnp.clip(number, 0, series.shape[1] - 1)].swapaxes(0, 1)
    return found * share[:, None].astype(found.dtype), number


def slice_transforms(band: TransientBand, samples: jax.Array, number: jax.Array, residue: jax.Array) -> jax.Array:
    """Compute Fa and Fb of each slice at the frequencies of some residues: (S, 4, R, entries) float32.

    The axis of length 4 holds the real and imaginary part of Fa, then of Fb. Frequency k of the series' transform of
    twice `n_fft` samples is entry q of the residue r, where k = q (2 n_fft/length) + r.

    Parameters
    ----------
    band : TransientBand
    samples, number : (S, 2, length) complex64, (S, length) int32
        From `slice_series`.
    residue : (R,) int32
    """
    whole = 2 * band.data.layout.n_fft
    base = jnp.min(number, axis=1)
    rate = residue.astype(jnp.float64)[None] / whole
    # the turn of a slice's start in float64; of a sample within it, less than one
    start = jnp.mod(base.astype(jnp.float64)[:, None] * rate, 1.0).astype(jnp.float32)
    within = (number - base[:, None]).astype(jnp.float32)
    angle = start[:, :, None] + within[:, None] * rate.astype(jnp.float32)[:, :, None]
    cos, sin = (x[:, None] for x in turn(angle - jnp.round(angle)))
    real, imaginary = samples.real[:, :, None], samples.imag[:, :, None]
    found = jnp.fft.fft(jax.lax.complex(real * cos + imaginary * sin, imaginary * cos - real * sin))
    entries = band_entries(band.data, band.length)
    low = int(np.sum(entries < 0))
    found = jnp.concatenate([found[..., band.length - low :], found[..., : len(entries) - low]], axis=-1)
    parts = jnp.stack([found.real, found.imag], axis=2)
    return parts.reshape(parts.shape[0], 4, *parts.shape[3:])


class Largest(NamedTuple):
    """Largest 2F, and sum of exp(F), of some windows at each frequency.

    Attributes
    ----------
    twoF : (n,) float32
        The largest 2F.
    total : (n,) float32
        Sum over windows of exp(F - F_max); 0 if it is not requested.
    """

    twoF: jax.Array
    total: jax.Array

    def with_windows(self, twoF: list[jax.Array], counts: jax.Array | None) -> Largest:
        """Add windows, whose 2F count as often as `counts`, (len(twoF),) float32, says."""
        best = self.twoF
        for x in twoF:
            best = jnp.maximum(best, x)
        if counts is None:
            return Largest(best, self.total)
        total = self.total * jnp.exp(0.5 * (self.twoF - best))
        for i, x in enumerate(twoF):
            total = total + counts[i] * jnp.exp(0.5 * (x - best))
        return Largest(best, total)


def band_values(band: TransientBand, point: Doppler, series: jax.Array, kind: Kind) -> jax.Array:
    """Compute the value of the map at each frequency of the band, (n_frequencies,) float32; see `Kind`.

    Parameters
    ----------
    band : TransientBand
    point : Doppler
    series : (2, n) complex64
        Series of a and b, as from `resampled`.
    kind : Kind
    """
    layout = band.data.layout
    samples, number = slice_series(band, point, series)
    patterns = band.data.observation.pattern_coefficients(point)
    matrix = AntennaMatrix(*(jnp.sum(x, axis=0) for x in matrices(band.moments, *patterns)))
    apart = 2 * layout.n_fft // band.length
    groups = -(-apart // band.residues)
    residues = jnp.arange(groups * band.residues, dtype=jnp.int32).reshape(groups, -1)
    windows = band.windows
    forms = tile_forms(windows, matrix) if isinstance(windows, Tiles) else jnp.empty(0)

    def some(residue: jax.Array) -> jax.Array:
        slices = slice_transforms(band, samples, number, residue)
        parts = slices.reshape(*slices.shape[:2], -1)
        if isinstance(windows, Tiles):
            found = in_tiles(windows, forms, parts, kind.bayes)
        else:
            found = with_weights(windows, band.edges, matrix, parts, kind)
        return _value(band, found, kind).reshape(slices.shape[2:])

    values = jax.lax.map(some, residues).reshape(groups * band.residues, -1)[:apart]
    first = -(layout.n_frequencies // 2) - int(band_entries(band.data, band.length)[0]) * apart
    return values.T.reshape(-1)[first : first + layout.n_frequencies]


def _value(band: TransientBand, found: Largest, kind: Kind) -> jax.Array:
    """Return the value of the map, including its empty windows."""
    if not kind.bayes:
        return jnp.where(band.n_empty > 0, jnp.maximum(found.twoF, 4.0), found.twoF)
    # from 2F as large as in noise on, so that nothing overflows
    best = jnp.maximum(found.twoF, 4.0)
    total = found.total * jnp.exp(0.5 * (found.twoF - best))
    total = total + band.n_empty.astype(jnp.float32) * jnp.exp(0.5 * (4.0 - best))
    return best + 2 * jnp.log(total / band.n_windows.astype(jnp.float32))


def _nothing(parts: jax.Array) -> Largest:
    shape = parts.shape[-1:]
    return Largest(jnp.full(shape, -jnp.inf, jnp.float32), jnp.zeros(shape, jnp.float32))


def _two_f(rows: list[jax.Array], form: jax.Array) -> jax.Array:
    """Return 2F of one window at each frequency, from parts of Fa and Fb and the window's `quadratic_form`."""
    a_re, a_im, b_re, b_im = rows
    power_a, power_b, cross = a_re * a_re + a_im * a_im, b_re * b_re + b_im * b_im, a_re * b_re + a_im * b_im
    return form[0] * power_a + form[1] * power_b - form[2] * cross + form[3]


def tile_forms(tiles: Tiles, matrix: AntennaMatrix) -> jax.Array:
    """Return `quadratic_form` of the windows of each tile, (T, TILE, TILE, 4) float32; -inf for pairs without a window.

    Parameters
    ----------
    tiles : Tiles
    matrix : AntennaMatrix
        Antenna matrix of each slice, (S,) float64.
    """
    within = jnp.arange(TILE, dtype=jnp.int32)[None]
    start, end = (edge[place[:, None] * TILE + within] for edge, place in zip(tiles[:2], tiles.places.T, strict=True))
    sums = [jnp.concatenate([jnp.zeros(1), jnp.cumsum(x)]) for x in matrix]
    own = AntennaMatrix(*(x[end][:, None, :] - x[start][:, :, None] for x in sums))
    *factors, least = quadratic_form(own)
    real = tiles.counts > 0
    forms = [*(jnp.where(real, x, 0.0) for x in factors), jnp.where(real, least, -jnp.inf)]
    return jnp.stack(forms, axis=-1).astype(jnp.float32)


def in_tiles(tiles: Tiles, forms: jax.Array, parts: jax.Array, bayes: bool) -> Largest:
    """Compute the largest 2F and sums of exp(F) of rectangular windows at some frequencies.

    Parameters
    ----------
    tiles : Tiles
    forms : (T, TILE, TILE, 4) float32
        From `tile_forms`.
    parts : (S, 4, n) float32
        Real and imaginary part of Fa and Fb of each slice, from `slice_transforms`.
    bayes : bool
        Whether to add up exp(F).
    """

    def add(before: jax.Array, own: jax.Array) -> tuple[jax.Array, jax.Array]:
        return before + own, before + own

    zero = jnp.zeros_like(parts[0])
    _, upto = jax.lax.scan(add, zero, parts)
    upto = jnp.concatenate([zero[None], upto])
    starts, ends = upto[tiles.starts], upto[tiles.ends]

    def tile(found: Largest, own: tuple[jax.Array, jax.Array, jax.Array]) -> tuple[Largest, None]:
        place, form, counts = own
        first, last = (jax.lax.dynamic_slice_in_dim(x, place[i] * TILE, TILE) for i, x in enumerate((starts, ends)))
        twoF = [
            _two_f([last[j, k] - first[i, k] for k in range(4)], form[i, j]) for i in range(TILE) for j in range(TILE)
        ]
        return found.with_windows(twoF, counts.reshape(-1) if bayes else None), None

    return jax.lax.scan(tile, _nothing(parts), (tiles.places, forms, tiles.counts))[0]


def with_weights(windows: Weights, edges: jax.Array, matrix: AntennaMatrix, parts: jax.Array, kind: Kind) -> Largest:
    """Compute the largest 2F and sums of exp(F) of windows of any shape at some frequencies.

    Parameters
    ----------
    windows : Weights
    edges : (S + 1,) float64
        Edges of the slices, s since the epoch.
    matrix : AntennaMatrix
        Antenna matrix of each slice, (S,) float64.
    parts : (S, 4, n) float32
    kind : Kind
    """
    start, end = edges[None, :-1], edges[None, 1:]
    squares = jnp.stack(matrix, axis=1)
    rows = parts.reshape(parts.shape[0], -1)

    def group(found: Largest, own: Weights) -> tuple[Largest, None]:
        t0, tau = own.t0[:, None], own.tau[:, None]
        weight = window_mean(kind.shape, kind.end, (start - t0) / tau, (end - t0) / tau)
        *factors, least = quadratic_form(AntennaMatrix(*(weight**2 @ squares).T))
        real = own.counts > 0
        form = jnp.stack([*factors, jnp.where(real, least, -jnp.inf)], axis=1).astype(jnp.float32)
        sums = jnp.matmul(weight.astype(jnp.float32), rows, precision=PRECISE).reshape(TOGETHER, 4, -1)
        twoF = [_two_f(list(sums[i]), form[i]) for i in range(TOGETHER)]
        return found.with_windows(twoF, own.counts if kind.bayes else None), None

    return jax.lax.scan(group, _nothing(parts), windows)[0]

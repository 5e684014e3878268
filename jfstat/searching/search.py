"""From prepared data and a bank of templates to a table of the loudest candidates: `search`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.fstatdata import FstatData
from jfstat.searching.tables import candidates_table
from jfstat.statistic.check import check_data, check_point, fit
from jfstat.statistic.fstat import fstat, twoF_band
from jfstat.templates import Doppler

if TYPE_CHECKING:
    from astropy.table import QTable

BATCH_BYTES = {"cpu": 256 << 20}
"""Memory that a batch of templates may take, by JAX's name of the platform."""
BATCH_BYTES_ELSEWHERE = 2 << 30
"""The same on accelerators; FFT plans stay well below the 4 GB at which they once failed (jax#9591)."""
BYTES_PER_SAMPLE, BYTES_PER_NODE = 96, 5000
"""Memory of `twoF_band` per template for each sample and each node of its timing; measured on a CPU."""
CANDIDATES = 64
"""Candidates at most whose 2F per detector is computed at a time."""
BLOCK = 64
"""Frequencies whose maximum is taken first when the largest of many values are looked for."""


class Peaks(NamedTuple):
    """Loudest values found, in falling order.

    Attributes
    ----------
    twoF : (k,) float32
    template : (k,) int64
        Index into the bank.
    frequency : (k,) int64
        Index into ``data.frequencies``.
    """

    twoF: np.ndarray
    template: np.ndarray
    frequency: np.ndarray


def search(
    data: FstatData,
    bank: Doppler,
    top: int = 1000,
    threshold: float | None = None,
    checkpoint: None = None,
    mesh: None = None,
    progress: bool = True,
    *,
    batch_size: int | None = None,
    per_detector: bool = True,
) -> QTable:
    """Search all frequencies of the data with every template of a bank, and keep the loudest.

    Batches of templates are computed by one jitted, vmapped `twoF_band`; only a batch's loudest values leave the
    device.

    Parameters
    ----------
    data : FstatData
    bank : Doppler
        A stack of n templates, as from `grid`, or one template; ``fkdot[..., 0]`` is ignored. Orbits should be those
        that `prepare` was told of: others cost much more, and bins that they take out of the band are left out.
    top : int
        How many candidates to keep at most.
    threshold : float, optional
        Keep candidates with 2F at or above this only; with `top`, the loudest `top` of them.
    checkpoint, mesh : None
        Reserved: resuming and several devices are not there yet, and anything but None is refused.
    progress : bool
        Whether to show a progress bar, if tqdm is installed.
    batch_size : int, optional
        Templates computed at a time; by default as many as need some 256 MB on a CPU, 2 GB on an accelerator.
    per_detector : bool
        Whether to add each detector's own 2F, which costs a direct sum over the data for each candidate.

    Returns
    -------
    QTable
        One row a candidate, a pair of template and frequency, loudest first; neighbours of a loud candidate are
        candidates too. Columns ``freq`` (Hz), ``f1dot`` (Hz/s), ... at the time ``meta["reftime"]``, ``alpha``,
        ``delta`` (rad), with orbits ``asini``, ``period``, ``tp`` (s), ``ecc``, ``argp`` (rad), then ``twoF`` from
        `twoF_band` and ``twoF_H1``, ... from `fstat`. Meta: version, reftime, detectors, ephemeris, start (GPS s),
        tspan (s), n_templates, and n_twoF, the number of values of 2F computed.

    Raises
    ------
    ValueError
        If an argument is of the wrong kind or range, or a template does not fit the data.
    """
    check_data(data)
    stack = _stacked(bank)
    check_worst_templates(data, stack)
    for name, value in (("checkpoint", checkpoint), ("mesh", mesh)):
        if value is not None:
            raise ValueError(f"{name} is not supported yet: leave it None.")
    if not _whole(top) or top < 1:
        raise ValueError(f"top must be a whole number of at least 1, not {top!r}: say how many candidates to keep.")
    if threshold is not None and not (np.ndim(threshold) == 0 and np.isreal(threshold) and np.isfinite(threshold)):
        raise ValueError(f"threshold must be a finite number or None, not {threshold!r}: give a value of 2F.")
    if batch_size is not None and (not _whole(batch_size) or batch_size < 1):
        raise ValueError(f"batch_size must be a whole number of at least 1, not {batch_size!r}, or None.")

    n_templates = stack.alpha.shape[0]
    most = _templates_in_memory(data, stack, data.layout.n_blocks * data.layout.block)
    size = int(batch_size or default_batch_size(n_templates, most))
    best = Peaks(np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.int64))
    with _progress_bar(n_templates, progress) as advance:
        for peaks, n_done in _batch_peaks(data, stack, size, int(top)):
            best = merge_peaks(best, peaks, int(top), threshold)
            advance(n_done)
    found = _candidates(data, stack, best)
    per = _twoF_per_detector(data, found, best.twoF) if per_detector else None
    meta = {
        "reftime": data.reftime if stack.reftime is None else stack.reftime,
        "detectors": list(data.detectors),
        "ephemeris": data.ephemeris,
        "start": data.epoch,
        "tspan": data.tspan,
        "n_templates": n_templates,
        "n_twoF": n_templates * data.layout.n_frequencies,
    }
    return candidates_table(found, best.twoF, per, meta)


def default_batch_size(n: int, most: int) -> int:
    """Length of the batches in which to do n things, at most `most` at a time.

    A power of two where one batch holds all: a little padding costs less than to compile for each n anew.
    """
    return min(most, 1 << (n - 1).bit_length())


def _templates_in_memory(data: FstatData, stack: Doppler, n_samples: int) -> int:
    leaf = data.bank[0]
    platform = next(iter(leaf.devices())).platform if isinstance(leaf, jax.Array) else jax.default_backend()
    block = data.layout.block if stack.orbit is None else data.layout.block_orbit
    each = n_samples * (BYTES_PER_SAMPLE + 4 * BYTES_PER_NODE / block)
    return max(1, int(BATCH_BYTES.get(platform, BATCH_BYTES_ELSEWHERE) / each))


def merge_peaks(first: Peaks, second: Peaks, top: int, threshold: float | None) -> Peaks:
    """The loudest `top` of two sets at or above a threshold; equal values in the order of template and frequency."""
    both = Peaks(*(np.concatenate(pair) for pair in zip(first, second, strict=True)))
    if threshold is not None:
        both = Peaks(*(x[both.twoF >= threshold] for x in both))
    order = np.lexsort((both.frequency, both.template, -both.twoF))[:top]
    return Peaks(*(x[order] for x in both))


def check_worst_templates(data: FstatData, stack: Doppler) -> None:
    """Raise a ValueError if any template of a stack cannot belong to the data, for the first that cannot."""
    beyond = jnp.stack(jax.vmap(fit, (None, 0, None))(data, stack, True))
    first = int(jnp.argmax(jnp.max(beyond, axis=0) > 0))
    check_point(data, jax.tree.map(lambda x: jnp.asarray(x[first]), stack), band=True)


def _whole(x: Any) -> bool:
    return isinstance(x, (int, np.integer)) and not isinstance(x, bool)


def _stacked(bank: Any) -> Doppler:
    """The bank with NumPy leaves of exactly one leading axis, on the host, where batches are cut."""
    if not isinstance(bank, Doppler):
        raise ValueError(f"bank must be a jfstat.Doppler, one or a stack, not {type(bank).__name__}: see jfstat.grid.")
    if np.size(bank.alpha) == 0:
        raise ValueError("bank holds no templates: give at least one.")
    return jax.tree.map(
        lambda x: np.asarray(x).reshape(-1, *np.shape(x)[np.ndim(bank.alpha) :]), bank
    )  # a Doppler's leaves have the same batch axes


def _with_numpy_leaves(tree: Any) -> Any:
    return jax.tree.map(np.asarray, tree)


def _batch_peaks(data: FstatData, stack: Doppler, size: int, top: int) -> Iterator[tuple[Peaks, int]]:
    """Loudest values of each batch and the batch's number of templates."""
    n_templates, n_frequencies = stack.alpha.shape[0], data.layout.n_frequencies
    keep = min(top, size * n_frequencies)
    waiting = None
    for start in range(0, n_templates, size):
        n_valid = min(size, n_templates - start)
        rows = np.minimum(np.arange(start, start + size), n_templates - 1)
        points = jax.tree.map(lambda x, rows=rows: x[rows], stack)
        # the device works on this batch while the host takes in the one before
        values, places = largest(_twoF_of_batch(data, points, n_valid), keep)
        if waiting is not None:
            yield _on_host(*waiting, n_frequencies)
        waiting = values, places, start, n_valid
    if waiting is not None:
        yield _on_host(*waiting, n_frequencies)


def _on_host(values: jax.Array, places: jax.Array, start: int, n_valid: int, n_frequencies: int) -> tuple[Peaks, int]:
    twoF, place = np.asarray(values), np.asarray(places, np.int64)
    real = twoF > -np.inf  # neither padding of the batch nor of the blocks
    twoF, place = twoF[real], place[real]
    return Peaks(twoF, start + place // n_frequencies, place % n_frequencies), n_valid


@jax.jit
def _twoF_of_batch(data: FstatData, points: Doppler, n_valid: jax.Array | int) -> jax.Array:
    """2F of a batch, flat in (template, frequency), (n,) float32; -inf from template `n_valid` on."""
    values = jax.vmap(twoF_band, (None, 0))(data, points)
    return jnp.where((jnp.arange(values.shape[0]) < n_valid)[:, None], values, -jnp.inf).reshape(-1)


@partial(jax.jit, static_argnames=("keep",))
def largest(values: jax.Array, keep: int) -> tuple[jax.Array, jax.Array]:
    """The `keep` largest values, falling, and where they are; of equal ones the first.

    The same as ``jax.lax.top_k``, but sorting fewer: the largest `keep` lie in the `keep` blocks of largest maximum.

    Parameters
    ----------
    values : (n,) float32
    keep : int
        At most n.

    Returns
    -------
    values : (keep,) float32
    places : (keep,) int
    """
    n = values.shape[0]
    n_blocks = -(-n // BLOCK)
    blocks = jnp.pad(values, (0, n_blocks * BLOCK - n), constant_values=-jnp.inf).reshape(n_blocks, BLOCK)
    if keep >= n_blocks:
        return jax.lax.top_k(values, keep)
    _, chosen = jax.lax.top_k(jnp.max(blocks, axis=1), keep)
    chosen = jnp.sort(chosen)  # so that of equal values the first still comes first
    top, within = jax.lax.top_k(blocks[chosen].reshape(-1), keep)
    return top, chosen[within // BLOCK] * BLOCK + within % BLOCK


def _candidates(data: FstatData, stack: Doppler, peaks: Peaks) -> Doppler:
    """Templates of the peaks, with their frequencies; NumPy leaves (k, ...)."""
    found = jax.tree.map(lambda x: x[peaks.template], stack)
    fkdot = np.concatenate([data.frequencies[peaks.frequency][:, None], found.fkdot[:, 1:]], axis=1)
    return _with_numpy_leaves(Doppler(found.alpha, found.delta, fkdot, found.reftime, found.orbit))


def _twoF_per_detector(data: FstatData, found: Doppler, twoF: np.ndarray) -> np.ndarray:
    """2F of each detector alone at each candidate, (k, D) float64, in chunks of one shape."""
    n, n_detectors = len(twoF), len(data.detectors)
    values = np.empty((n, n_detectors))
    if n == 0:
        return values
    if n_detectors == 1:
        return twoF[:, None].astype(np.float64)
    size = default_batch_size(n, min(CANDIDATES, _templates_in_memory(data, found, data.series[0].shape[0])))
    for start in range(0, n, size):
        rows = np.minimum(np.arange(start, start + size), n - 1)
        chunk = _per_detector(data, jax.tree.map(lambda x, rows=rows: x[rows], found))
        values[start : start + size] = np.asarray(chunk)[: n - start]
    return values


@jax.jit
def _per_detector(data: FstatData, points: Doppler) -> jax.Array:
    return jax.vmap(lambda point: fstat(data, point).twoF_per_detector)(points)


@contextmanager
def _progress_bar(total: int, show: bool) -> Iterator[Any]:
    """A function to be told how many templates were done."""
    tqdm = None
    if show:
        with suppress(ImportError):
            from tqdm.auto import tqdm
    if tqdm is None:
        yield lambda n: None
    else:
        with tqdm(total=total, desc="search", unit=" templates") as bar:
            yield bar.update

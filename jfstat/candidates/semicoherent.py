"""Compute the details of semi-coherent candidates: exact means of 2F, log10BSGL, amplitudes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.candidates.details import Details
from jfstat.candidates.linerobust import bsgl_column
from jfstat.candidates.rows import at_once, computed_rows
from jfstat.compileroptions import NO_EMITTERS, SAME_BITS, jit_with
from jfstat.data.blockspectra import BlockSpectra, spectra_or_data, spectra_programs
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.workers import in_order, workers_for
from jfstat.signal.templates import Doppler
from jfstat.signal.values import with_fields
from jfstat.statistic.semicoherent import SegmentTerms, SemicoherentFstat, amplitude_from, segment_terms

ROWS = 64
"""Number of candidates computed by one call."""
AMPLITUDES = ("h0", "cosi", "psi", "h0_error", "cosi_error", "psi_error")
"""Columns of amplitudes: all but phi0, which is free in each segment."""


def semicoherent_columns(
    segments: FstatData, found: Doppler, amplitudes: bool, frequencies: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Compute exact means of 2F, of all and of each detector, by sums over all data for each candidate.

    A candidate's values do not depend, to the last bit, on the other candidates in the table.

    Parameters
    ----------
    segments : FstatData
        Data with a leading axis of K segments.
    found : Doppler
        Stack of k candidates, NumPy leaves (k, ...); k may be 0.
    amplitudes : bool
        Whether to estimate amplitudes too.
    frequencies : (k, K) float64 ndarray, optional
        Frequency of each candidate in each segment, Hz, if it wanders.

    Returns
    -------
    dict of str to (k,) float64 ndarray
        ``mean_twoF``, ``mean_twoF_H1``, ... over the segments in which a detector has data, ``sum_twoF_H1``, ... and,
        with `amplitudes`, ``h0``, ``cosi``, ``psi`` and their errors; see `semicoherent_amplitude`.
    """
    names = ["mean_twoF", *(f"{kind}_twoF_{x}" for kind in ("mean", "sum") for x in segments.detectors)]
    names += AMPLITUDES if amplitudes else ()
    k = len(found.alpha)
    if not k:
        return {name: np.empty(0) for name in names}

    bare, same = segments.for_one_template, list(_in_rows(found))

    def of_segment(i: int) -> SegmentTerms:
        own, parts = spectra_or_data(bare[i], found), same
        if frequencies is not None:
            there = np.concatenate([frequencies[:, i, None], np.asarray(found.fkdot)[:, 1:]], axis=1)
            parts = list(_in_rows(with_fields(found, fkdot=there)))
        terms = [_terms(own, *rows, at_once(own)) for rows in parts]
        return jax.tree.map(lambda *x: np.concatenate(x)[:k], *terms)

    each = list(in_order(of_segment, range(segments.n_segments or 0), workers_for(device_of(segments))))
    terms = jax.tree.map(lambda *x: np.stack(x, axis=1), *each)
    counted = np.any(np.asarray(segments.observation.weight) > 0, axis=-1)
    values = [np.asarray(_values(rows, counted, segments.detectors, amplitudes)) for rows, _ in _in_rows(terms)]
    return {name: column.copy() for name, column in zip(names, np.concatenate(values)[:k].T, strict=True)}


def semicoherent_programs(segments: FstatData, templates: Doppler, amplitudes: bool) -> Iterator[jax.stages.Lowered]:
    """Yield the programs that `semicoherent_columns` runs for candidates among some templates, each traced when
    needed."""

    def stacked(x: Any, *leading: int) -> jax.ShapeDtypeStruct:
        return jax.ShapeDtypeStruct((ROWS, *leading, *x.shape[1:]), x.dtype)

    own, programs = spectra_programs(segments.for_one_template[0], templates)
    yield from programs
    rows = jax.tree.map(stacked, templates)
    sums = _terms.lower(own, rows, ROWS, at_once(own))
    yield sums
    k, n_detectors = segments.observation.weight.shape[:2]
    of_all = jax.tree.map(lambda x: stacked(x, k), sums.out_info)
    counted = jax.ShapeDtypeStruct((k, n_detectors), np.bool_)
    yield _values.lower(of_all, counted, segments.detectors, amplitudes)


def _in_rows(stack: Any) -> Iterator[tuple[Any, int]]:
    """Yield a pytree of arrays with k rows in parts of `ROWS`, the last padded, and how many of a part's rows count."""
    k = len(jax.tree.leaves(stack)[0])
    for first in range(0, k, ROWS):
        rows = np.minimum(np.arange(first, first + ROWS), k - 1)
        yield jax.tree.map(lambda x, rows=rows: x[rows], stack), min(ROWS, k - first)


@jit_with(SAME_BITS | NO_EMITTERS, kept=True, static_argnames="together")
def _terms(segment: FstatData | BlockSpectra, points: Doppler, n: int, together: bool) -> SegmentTerms:
    """Return a segment's contribution to the first n of some candidates, (`ROWS`, ...); the first's for the
    others."""

    def of_row(row: jax.Array | int) -> SegmentTerms:
        return segment_terms(segment, jax.tree.map(lambda x: x[row], points))

    return computed_rows(of_row, n, ROWS, together)


@jit_with(SAME_BITS, kept=True, static_argnames=("detectors", "amplitudes"))
def _values(terms: SegmentTerms, counted: jax.Array, detectors: tuple[str, ...], amplitudes: bool) -> jax.Array:
    """Return the columns' values of `ROWS` candidates, (`ROWS`, n_columns) float64, given their terms, (`ROWS`, K,
    ...)."""

    def of_row(own: SegmentTerms) -> jax.Array:
        found = SemicoherentFstat(own.twoF, own.twoF_per_detector, counted, detectors)
        values = [found.mean_twoF[None], found.mean_twoF_per_detector, found.sum_twoF_per_detector]
        if amplitudes:
            estimate = amplitude_from(own.y, jnp.sum(own.matrix, axis=0))
            values.append(jnp.stack([getattr(estimate, name) for name in AMPLITUDES]))
        return jnp.concatenate(values)

    return jax.vmap(of_row)(terms)  # in a loop, the iterations of the amplitude fit would take longer than all the rest


def semicoherent_details(
    kept: dict[str, np.ndarray], detectors: tuple[str, ...], n_segments: int, details: Details
) -> dict[str, np.ndarray]:
    """Return columns for a table of candidates, each (k,) float64, given the result of `semicoherent_columns`."""
    kept = dict(kept)
    mean = kept.pop("mean_twoF")
    each = {name: kept.pop(name) for name in [f"mean_twoF_{x}" for x in detectors]}
    sums = [kept.pop(name) for name in [f"sum_twoF_{x}" for x in detectors]]
    if len(detectors) == 1:  # with one detector its 2F is the total 2F
        each = {name: mean.copy() for name in each}
    columns = {"mean_twoF": mean}
    if details.per_detector:
        columns |= each
        columns |= bsgl_column(n_segments * mean, np.stack(sums, axis=-1), details.prior)
    return columns | kept

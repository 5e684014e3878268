"""The columns of a search for the best paths through segments: the paths of the kept templates, and what is on them."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.candidates.details import Details
from jfstat.candidates.semicoherent import semicoherent_columns, semicoherent_details
from jfstat.candidates.tables import Meta
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import device_of
from jfstat.data.workers import in_order, workers_for
from jfstat.reproducible import SAME_BITS
from jfstat.searching.reduce.keep import Peaks
from jfstat.signal.parameters import columns as parameter_values
from jfstat.signal.templates import Amplitude, Doppler
from jfstat.tracking.emission import emission
from jfstat.tracking.engine import Tracks
from jfstat.tracking.null import viterbi_null
from jfstat.tracking.viterbi import ViterbiPath, viterbi


def track_columns(
    data: FstatData, tracks: Tracks, stack: Doppler, found: Doppler, peaks: Peaks, details: Details
) -> dict[str, np.ndarray]:
    """The columns of the candidates, (k,) each, loudest first; see `search`.

    Parameters
    ----------
    data : FstatData
        With segments.
    tracks : Tracks
    stack : Doppler
        The whole bank, NumPy leaves.
    found : Doppler
        The templates, NumPy leaves (k, ...); frequencies are the last ones of the paths.
    peaks : Peaks
    details : Details
    """
    k = len(found.alpha)
    rows = [jax.tree.map(lambda x, i=i: jnp.asarray(x[i]), found) for i in range(k)]
    paths = list(in_order(partial(_path, data, tracks), rows, min(k, workers_for(device_of(data))) or 1))
    path = np.array([np.asarray(own.path) for own in paths], np.int64).reshape(k, data.n_segments or 0)
    frequencies = float(data.fmin) + path * float(data.dfreq)
    likelihood = peaks.twoF.astype(np.float64)
    columns = parameter_values(found) | {
        "log_likelihood": likelihood,
        "score": np.array([float(own.score) for own in paths]),
        "false_alarm": _false_alarms(data, tracks, stack, found, likelihood),
        "freq_start": frequencies[:, 0],
    }
    kept = semicoherent_columns(data, found, details.amplitudes, frequencies)
    columns |= semicoherent_details(kept, data.observation.detectors, data.n_segments or 0, details)
    columns["template"] = peaks.template
    return columns


def track_meta(tracks: Tracks) -> Meta:
    """What the table says of a search for paths."""
    amplitude = None if tracks.amplitude is None else dict(zip(("h0", "cosi", "psi"), tracks.amplitude, strict=True))
    return {"transitions": list(tracks.transitions), "amplitude": amplitude}


def _path(data: FstatData, tracks: Tracks, point: Doppler) -> ViterbiPath:
    """The best path of a template."""
    return _compiled(data, point, jnp.asarray(tracks.transitions), tracks.known)


@partial(jax.jit, compiler_options=SAME_BITS)
def _compiled(data: FstatData, point: Doppler, transitions: jax.Array, amplitude: Amplitude | None) -> ViterbiPath:
    table = emission(data, point, amplitude)
    return viterbi(0.5 * table if amplitude is None else table, transitions)


def _false_alarms(
    data: FstatData, tracks: Tracks, stack: Doppler, found: Doppler, likelihood: np.ndarray
) -> np.ndarray:
    """Probability for each candidate that the best path of a template is as likely in noise.

    By the distribution at the first template of the bank, so that it does not depend on how a search is divided.
    """
    if not len(likelihood):
        return np.empty(0)
    first = jax.tree.map(lambda x: jnp.asarray(x[0]), stack)
    null = viterbi_null(data, first, tracks.transitions, amplitude=tracks.known)
    rate = np.asarray(null.false_alarm(likelihood))
    if tracks.known is None:
        return rate
    # how loud noise is depends on rho^2 of the known signal, and so on the sky position
    same = (found.alpha == stack.alpha[0]) & (found.delta == stack.delta[0])
    return np.where(same, rate, np.nan)

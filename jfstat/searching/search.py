"""Search prepared data with a bank of templates for a table of the loudest candidates: `search`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from jfstat import kinds
from jfstat.candidates.details import Details
from jfstat.data.fstatdata import FstatData
from jfstat.data.normalised import NormalisedSFTs
from jfstat.public import host
from jfstat.searching.options import Keep, Run
from jfstat.searching.plan import plan_search
from jfstat.searching.statistic import Statistic
from jfstat.signal.templates import Doppler

if TYPE_CHECKING:
    from astropy.table import QTable


@host("jax.vmap jfstat.twoF_band there", progress=kinds.flag)
def search(
    data: FstatData | NormalisedSFTs,
    bank: Doppler | QTable,
    statistic: Statistic | None = None,
    top: int | None = 1000,
    threshold: float | None = None,
    checkpoint: str | os.PathLike | None = None,
    progress: bool = True,
    *,
    keep: Keep | None = None,
    details: Details | None = None,
    run: Run | None = None,
) -> QTable:
    """Search all frequencies of the data with every template of a bank, and keep the loudest candidates.

    Templates are computed in batches on the device, and only the loudest values and the tallies of a batch leave it. A
    band that is too wide for the device's memory is searched in parts, one after the other. Consecutive templates that
    differ only in spin-down share a resampled series, so banks should be ordered by sky position, as `template_bank`
    orders them.

    Parameters
    ----------
    data : FstatData or NormalisedSFTs
        From `prepare`; or from `normalise`, for power along tracks.
    bank : Doppler or QTable
        A template or a stack of n, as from `template_bank`; ``fkdot[..., 0]`` is ignored. With a phase model, its
        parameters are columns ``model...`` of the result. Or a table with columns ``alpha``, ``delta``, optionally
        ``f1dot``, ... and the columns of an orbit, and the reference time in ``meta["reftime"]``. Orbits should be
        among the orbits given to `prepare`: others cost much more, and frequencies that they shift out of the band are
        left out.
    statistic : Statistic, optional
        Statistic to maximise: for data without segments `TwoF` (the default), `Transient` or `BSGL`; for data with
        segments `MeanTwoF` (the default), `Interpolated`, `BestPath`, `BSGL` or `BSGLtL`; for normalised SFTs
        `TrackPower`. Its docstring lists the columns and meta that it adds to the table.
    top : int or None
        Largest number of candidates to keep. None, which needs a threshold, keeps all candidates above it.
    threshold : float, optional
        Keep only candidates whose statistic is at or above this; with `top`, the loudest `top` of them.
    checkpoint : path, optional
        File that holds the state of the search. It is replaced as a whole after each batch. If it exists, the search
        continues from there and ends in the same table, bit for bit. With a checkpoint, Ctrl-C and SIGTERM stop the
        search after the current batches, with `SearchStopped`, a KeyboardInterrupt; a second one stops it at once.
    progress : bool
        Whether to show the rate and the time left: a bar on terminals and in notebooks if tqdm is installed, and
        otherwise, as in the logs of batch jobs, a line now and then.
    keep : Keep, optional
        Which candidates are kept and how the table is sorted: line-robust ranking and cut, clusters, known lines.
    details : Details, optional
        What is computed for each candidate: 2F of each detector with ``log10BSGL``, and amplitudes; both by default.
    run : Run, optional
        How the search is run: devices, batches, a unit of a divided search, engine.

    Returns
    -------
    QTable
        One row per candidate, a pair of template and frequency, the loudest first unless `Keep.ranking` says otherwise;
        unless clustered, neighbours of a loud candidate are candidates too. Columns:

        - ``freq`` (Hz), ``f1dot`` (Hz/s), ... at the time ``meta["reftime"]``, ``alpha``, ``delta`` (rad), and with
          orbits ``asini``, ``period``, ``tp`` (s), ``ecc``, ``argp`` (rad);
        - the columns of the statistic, such as ``twoF``;
        - with `details`, ``twoF_H1``, ..., ``log10BSGL``, and ``h0``, ``cosi``, ``psi``, ``phi0`` and their errors
          ``h0_error``, ...;
        - ``template``, the index into the bank; with `Keep.bounds`, ``outside``; with `Keep.lines`, ``line``; with
          `Keep.cluster`, ``n_members``.

        Meta: statistic (its name), version, reftime, detectors, ephemeris, start (GPS s), tspan (s), parameters (names
        of the varied ones: the frequency, all that differ among templates, and all over whose ranges the bank was asked
        to extend, even if one template covers them), n_templates, n_twoF (the number of values of the statistic that
        were computed), engine, batch_size, device_bytes (the memory needed on the device), fmin, fmax, dfreq (Hz), tsft
        (s), n_sfts and sqrt_sx (1/sqrt(Hz), harmonic mean over SFTs) of each detector, top, threshold, ranking,
        bsgl_threshold, cluster, bounds, Fstar0, oLGX, false_alarm (the probability that the loudest value in noise
        alone is as loud), twoF_histogram (the number of values in bins that begin at twoF_edges, the last of which has
        no upper end), and loudest_per_subband. With segments also n_segments and segment_tspan (s). With lines also
        lines (detector, fmin, fmax and name of each line that any template can cross) and veto_lines.

    Raises
    ------
    OSError
        If the checkpoint cannot be read or written.
    TypeError
        If an argument is of the wrong kind.
    ValueError
        If an argument is out of range or does not go with the statistic, a template does not fit the data, the engine
        cannot be used here, or a checkpoint is of another search, data set, bank, engine or version, or in use by
        another.
    SearchStopped
        If a search with a checkpoint is asked to stop.

    See Also
    --------
    plan_search : Estimate what a search will cost, without running it.

    Examples
    --------
    >>> bank = jfstat.template_bank((2.0, 2.2, 0.1), 0.47, f1dot=[-1e-10], data=data)
    >>> found = jfstat.search(data, bank, top=3, progress=False)
    >>> found.colnames[:5], len(found)
    (['freq', 'f1dot', 'alpha', 'delta', 'twoF'], 3)
    """
    return plan_search(
        data, bank, statistic, top, threshold, checkpoint, progress, keep=keep, details=details, run=run
    ).run()

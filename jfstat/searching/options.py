"""Define the options of a search: which candidates are kept, and how the search is run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jax.sharding import Mesh

from jfstat.candidates.bounds import checked_bounds
from jfstat.lines.doppler import checked_lines
from jfstat.searching.driver.mesh import check_mesh
from jfstat.validation import fits_float32, is_number, is_whole, shown

if TYPE_CHECKING:
    from astropy.table import QTable

MOST_TOGETHER = 10**6
"""Largest number of templates in a batch."""
RANKINGS = ("F", "BSGL")


@dataclass(frozen=True, eq=False)
class Keep:
    """Options for which candidates a search keeps, besides its `top` and `threshold`, and how its table is sorted.

    Parameters
    ----------
    ranking : "F" or "BSGL"
        Order of the table: by the statistic, or by ``log10BSGL``, which needs several detectors and
        `Details.per_detector`. The `top` candidates are the loudest of the statistic in either case: use
        `bsgl_threshold` against lines that would fill the table, or the statistic `BSGL` to keep the largest
        ``log10BSGL`` of all values.
    bsgl_threshold : float, optional
        Keep only candidates whose ``log10BSGL`` is at or above this, computed for every value of 2F, or of its mean
        over segments, on the device; for `TwoF` and `MeanTwoF`. Over segments the prior's `LinePrior.fstar0` is the
        scale of the sum. The transforms of each detector are needed too, so with two detectors a search takes two to
        three times as long; only XLA can do it, and not with `Interpolated`. The histogram and the maxima of sub-bands
        still count all values.
    cluster : float, optional
        Of all candidates within this mismatch of a louder one, by the metric, keep only the loudest; see
        `clusters.clustered`. For `TwoF`, clusters that one signal explains are then joined, such as its side
        lobes and neighbours in other orbits; see `clusters.explained`. A value of 1 is usual. The column ``n_members``
        counts the members of each cluster. Clusters form among the `top` candidates, for units in `merge`.
    lines : QTable, optional
        Known lines, from `read_lines`. A column ``line`` names the lines that each candidate crosses; see `flag_lines`.
    veto_lines : bool
        Leave out, for each template, the frequency bins that `lines` affect: they are not counted and never become
        candidates, so that lines fill no table. Computed on the device, for each template from its own Doppler shifts,
        spin-down and orbit; only XLA can do it, and only for data without segments.
    bounds : mapping of str to (low, high), optional
        Ranges of the parameters that the search is meant to cover, in Hz/s, ..., rad, s, or as Quantities. Lattices
        extend beyond them: a column ``outside`` then says which candidates lie outside. All are kept.

    Raises
    ------
    TypeError, ValueError
        If a value is of another kind or out of range.

    Examples
    --------
    >>> robust = jfstat.Keep(ranking="BSGL", bsgl_threshold=2.0, cluster=1.0)
    >>> robust.ranking
    'BSGL'
    """

    ranking: str = "F"
    bsgl_threshold: float | None = None
    cluster: float | None = None
    lines: QTable | None = None
    veto_lines: bool = False
    bounds: Mapping[str, tuple[Any, Any]] | None = field(default=None)

    def __post_init__(self) -> None:
        least, cluster = self.bsgl_threshold, self.cluster
        if isinstance(self.ranking, str) and self.ranking == "BtSG":
            raise ValueError("ranking 'BtSG' is for transients: give statistic=Transient(windows, ranking='BtSG').")
        if not isinstance(self.ranking, str) or self.ranking not in RANKINGS:
            raise ValueError(f"ranking must be one of {', '.join(map(repr, RANKINGS))}, not {shown(self.ranking)}.")
        if least is not None and not fits_float32(least):
            raise ValueError(f"bsgl_threshold must be a finite number or None, not {shown(least)}.")
        if cluster is not None and not (is_number(cluster) and cluster > 0):
            raise ValueError(
                f"cluster must be a positive number or None, not {shown(cluster)}: give a mismatch, such as 1."
            )
        if not isinstance(self.veto_lines, bool):
            raise TypeError(f"veto_lines must be True or False, not {shown(self.veto_lines)}.")
        if self.lines is not None:
            checked_lines(self.lines)
        elif self.veto_lines:
            raise ValueError("veto_lines needs lines: give a table from jfstat.read_lines.")
        plain = {
            "bsgl_threshold": None if least is None else float(least),
            "cluster": None if cluster is None else float(cluster),
            "bounds": checked_bounds(self.bounds),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)


@dataclass(frozen=True)
class Run:
    """Options for how a search is run: on which devices, in which batches, and which unit of it.

    Parameters
    ----------
    mesh : jax.sharding.Mesh, optional
        Devices among which to divide the templates, whatever the mesh's axes; see ``jax.make_mesh``. They belong to
        this process, where the device that is free first computes each batch, or, after
        ``jax.distributed.initialize()``, to several processes; then all must search with the same arguments, and all
        get the table.
    batch_size : int, optional
        Number of templates computed at a time on each device. By default as many as fit into the caches of a CPU, or
        into most of the free memory of an accelerator.
    unit : (int, int), optional
        Do only unit i of n, 1 <= i <= n, which is a range of batches. `merge` turns the tables of all units into the
        table of the whole search.
    engine : str, optional
        Engine that computes 2F: ``"xla"``, which runs everywhere, or ``"cuda"``, kernels for NVIDIA GPUs. By default
        the fastest one that the data's device can use. Tables of different engines agree to rounding.

    Raises
    ------
    TypeError, ValueError
        If a value is of another kind or out of range.

    Examples
    --------
    >>> jfstat.Run(unit=(3, 64)).unit
    (3, 64)
    """

    mesh: Mesh | None = None
    batch_size: int | None = None
    unit: tuple[int, int] | None = None
    engine: str | None = None

    def __post_init__(self) -> None:
        size, unit, engine = self.batch_size, self.unit, self.engine
        check_mesh(self.mesh)
        if size is not None and (not is_whole(size) or not 1 <= size <= MOST_TOGETHER):
            raise ValueError(
                f"batch_size must be a whole number from 1 to {MOST_TOGETHER}, not {shown(size)}, or None."
            )
        if unit is not None:
            pair = isinstance(unit, tuple) and len(unit) == 2 and all(map(is_whole, unit))
            if not (pair and 1 <= unit[0] <= unit[1]):
                raise ValueError(
                    f"unit must be (i, n) with 1 <= i <= n, not {shown(unit)}: (3, 64) is the third of 64."
                )
            object.__setattr__(self, "unit", (int(unit[0]), int(unit[1])))
        if engine is not None and not isinstance(engine, str):
            raise TypeError(f"engine must be a string, not {shown(engine)}.")
        object.__setattr__(self, "batch_size", None if size is None else int(size))

    def jobs(self, n_jobs: int) -> tuple[int, int]:
        """Return the index of the first job to do and of the job after the last, of `n_jobs` in the whole search."""
        if self.unit is None:
            return 0, n_jobs
        i, n = self.unit
        return n_jobs * (i - 1) // n, n_jobs * i // n

"""Define the protocols of engines and of other reductions of a batch of templates, and the types of their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from jfstat.data.bandseries import Layout
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import Device
from jfstat.lines.doppler import LineBands
from jfstat.signal.templates import Doppler
from jfstat.statistic.bins import counted_bins
from jfstat.statistic.resample import without_spin_down

COMPLEX = 8
"""Size of a complex64, bytes."""


class Loudest(NamedTuple):
    """Largest values of 2F of a batch, in falling order, and tallies of all its values.

    Attributes
    ----------
    twoF : (keep,) float32
        -inf where fewer values count; shorter if the batch has fewer values.
    template : (keep,) int32
        Index into the batch.
    frequency : (keep,) int32
        Index into ``data.frequencies``.
    histogram : (reduction.BINS,) int32, or int64 from sums over segments
        Number of values in each bin of 2F.
    sections : (P,) float32
        Largest value in each section of the spectrum; see `reduction.largest_of_sections`. -inf where no bin counts.
    """

    twoF: jax.Array
    template: jax.Array
    frequency: jax.Array
    histogram: jax.Array
    sections: jax.Array


class Stage(NamedTuple):
    """Step of an engine's computation that can be timed alone.

    Attributes
    ----------
    name : str
    run : callable
        Jitted function of data, points and the result of the previous stage (None for the first).
    least_bytes : int
        Bytes of the whole batch's inputs and outputs, each read or written once.
    """

    name: str
    run: Callable[..., object]
    least_bytes: int


class Reduction(Protocol):
    """Computation of a statistic for a batch of templates, reduced to the loudest values.

    Instances are static arguments of jitted functions, so they are hashable and equal ones compute the same. Engines
    are reductions of 2F; statistics that are made of 2F bring their own, see `jfstat.searching.statistic`.
    """

    def ready(self, data: Any) -> Any:
        """Return the data in the form that the methods below take, often as they are; called once for all batches."""
        ...

    def bins(self, data: Any, points: Any, n_valid: Any, first_bin: Any, bands: LineBands | None) -> jax.Array:
        """Return the first and last bin that count for each template, and the L ranges that are vetoed; traceable.

        Parameters
        ----------
        data
            From `ready`.
        points : Doppler
            A stack of B templates, or what stands for them; those from `n_valid` on are padding and do not count.
        n_valid : int
        first_bin : int
            Bins of the band before this one do not count.
        bands : LineBands or None
            Bins that these lines affect do not count.

        Returns
        -------
        (2 + 2 L, B) int32
        """
        ...

    def reduced(self, data: Any, points: Any, bins: jax.Array, keep: int, same_source: bool) -> Loudest:
        """Return the largest values of a batch of templates, exactly, and tallies of all values; traceable.

        Parameters
        ----------
        data
            From `ready`.
        points : Doppler
            A stack of B templates that fit the data; for an engine that `HasGeometry`, the result of its `geometry`.
        bins : (2 + 2 L, B) int32
            From `bins`. Only XLA takes vetoed ranges.
        keep : int
            Number of values to return.
        same_source : bool
            Whether all templates have the sky position, orbit and reference time of the first: the data are then
            resampled once, and only the spin-down is removed for each template.
        """
        ...


class BandReduction(Reduction, Protocol):
    """Reduction over the band of prepared data, whose batches are as large as the memory allows."""

    def template_bytes(self, layout: Layout, n_detectors: int, orbit: bool) -> int:
        """Return an upper limit of the device memory per template of a batch."""
        ...

    def largest_batch(self, layout: Layout) -> int:
        """Return the largest number of templates of a batch, however much memory there is."""
        ...

    def filter_bytes(self, layout: Layout, n_detectors: int) -> int:
        """Return the device memory of the arrays that `ready` makes, beside the data's own filters."""
        ...


class Engine(BandReduction, Protocol):
    """Transformation of data and reduction of 2F on a kind of device; results of all engines agree to rounding.

    `jfstat.transforms` has the costs of each engine's transforms, by its name.

    Attributes
    ----------
    name : str
    needs : str
        Requirements of the engine, for messages.
    """

    name: ClassVar[str]
    needs: ClassVar[str]

    def usable(self, layout: Layout, device: Device) -> bool:
        """Return whether the engine can handle data of this layout on this device."""
        ...

    def unavailable(self) -> str | None:
        """Return why this machine cannot run the engine although device and data suit it; None if it can."""
        ...

    def maxima(self, data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
        """Return the largest 2F over the band of each template of a stack, (B,) float32; traceable."""
        ...

    def stages(self, data: FstatData, points: Doppler, same_source: bool) -> tuple[Stage, ...]:
        """Return the steps from prepared data to `maxima`, for timing; of `points` only the number matters."""
        ...


@runtime_checkable
class HasGeometry(BandReduction, Protocol):
    """Reduction whose geometry is worth a program of its own, so that XLA compiles it beside the one of `reduced`."""

    def geometry(self, data: Any, points: Doppler, same_source: bool) -> Any:
        """Return the input that `reduced` takes in place of a stack of templates; traceable.

        Parameters are as for `reduced`; the data need no filters.
        """
        ...


@runtime_checkable
class HasBand(Engine, Protocol):
    """Engine that computes all values of the band too, not their reduction alone.

    Attributes
    ----------
    platform : str
        JAX's name of the platform that it computes on, as in ``jax.lax.platform_dependent``.
    """

    platform: str

    def band(self, data: FstatData, points: Doppler, same_source: bool) -> jax.Array:
        """Return 2F at the band's frequencies for each template of a stack, (B, n_frequencies) float32; traceable.

        Parameters are as for `reduced`. Bins are computed whether or not the data hold the template's signal there.
        """
        ...


class InBand:
    """Base of engines and statistics that count the bins of the band of prepared data."""

    def bins(
        self, data: FstatData, points: Doppler, n_valid: Any, first_bin: Any, bands: LineBands | None
    ) -> jax.Array:
        """Return the bins that count for each template; see `Reduction.bins`."""
        return counted_bins(data, points, n_valid, first_bin, bands)


class StageBytes:
    """Bytes of the arrays between stages, for one template, except `filtered`, which all templates share."""

    def __init__(self, data: FstatData):
        layout, n_detectors = data.layout, len(data.detectors)
        self.filtered = sum(x.nbytes for x in data.filters)
        self.cubics = n_detectors * layout.n_blocks * (2 * 4 + 4 * 4 * 4)  # two int32, four cubics in float32
        self.series = 2 * COMPLEX * layout.n_blocks * layout.block
        self.transforms = 4 * COMPLEX * layout.n_fft
        self.searched = 2 * COMPLEX * layout.n_frequencies


def nodes_per_template(layout: Layout, n_detectors: int, orbit: bool) -> int:
    """Return the number of nodes, of all blocks and detectors, at which a template's timing is computed."""
    n_samples = layout.n_blocks * layout.block
    return 4 * (n_samples // layout.block_of(orbit)) * n_detectors


def first_without_spin_down(points: Doppler) -> Doppler:
    """Return the first template of a stack, without its spin-down."""
    return without_spin_down(jax.tree.map(lambda x: jnp.asarray(x)[0], points))

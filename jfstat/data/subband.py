"""Cut a part of the band out of prepared data, for searches on devices with little memory."""

from __future__ import annotations

import dataclasses
from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.data.band import band_series, decimated_spectrum
from jfstat.data.bandseries import Grid
from jfstat.data.fstatdata import FstatData
from jfstat.data.memory import default_device, device_of
from jfstat.data.sizes import Blocks, layout_of, low_pass
from jfstat.maths.lengths import largest_divisor, smooth_lengths
from jfstat.transforms import block_length


def subband(data: FstatData, first: int, n_frequencies: int, margin: float = 0.0) -> FstatData:
    """Return prepared data for a part of the band, with fewer samples and new filters.

    Parameters
    ----------
    data : FstatData
        With or without interpolation filters.
    first, n_frequencies : int
        The part's frequencies are ``data.frequencies[first : first + n_frequencies]``.
    margin : float
        Additional room around the band, Hz, as far as the data have it.

    Returns
    -------
    FstatData
    """
    band, layout = data.band, data.layout
    seconds, spacing = float(band.dtau), float(band.dfreq)
    fmin = float(band.fmin) + first * spacing
    cut_below = first * spacing
    cut_above = (layout.n_frequencies - first - n_frequencies) * spacing
    # the slack becomes part of the flat band
    pass_low = float(band.pass_low - band.slack) + max(0.0, cut_below - margin)
    pass_high = float(band.pass_high + band.slack) - max(0.0, cut_above - margin)
    half_pass = 0.5 * (pass_high - pass_low)
    passed = low_pass(half_pass, 0.5 / spacing)
    # a narrower filter rings longer, and needs room for it on both sides
    room = int(np.ceil(passed.quiet / float(band.dt)))
    least = layout.n_band + 2 * room
    lengths = smooth_lengths(least, 2 * least)
    room += int(min(lengths[(lengths - least) % 2 == 0]) - least) // 2
    grid = Grid(
        int(data.observation.epoch), float(band.start) - room * float(band.dt), float(band.dt), layout.n_band + 2 * room
    )
    # any whole number is good enough, though not the fastest: one sample of so many is far below `plan.MISMATCH`
    n_band = round(grid.length / passed.dtau)
    offset = round((0.5 * (pass_low + pass_high) - float(band.heterodyne)) * grid.length)

    block = block_length(passed.n_fft, layout.block * seconds / passed.dtau)
    block_orbit = largest_divisor(block, layout.block_orbit * seconds / passed.dtau)
    runs = largest_divisor(block, layout.run), largest_divisor(block_orbit, layout.run_orbit)
    reach = float(band.reach)
    covered = layout.n_blocks * layout.block * seconds + 2 * passed.quiet
    new = layout_of(passed, Blocks(block, block_orbit, *runs, reach), n_band, grid.length, n_frequencies, covered)
    device = device_of(data)
    given = np.asarray(data.series) if device.platform == "cpu" else data.series

    def spectrum_of(detector: int) -> jax.Array | np.ndarray:
        own = given[detector, : layout.n_band]
        return decimated_spectrum(own, grid, offset, n_band, half_pass, passed.half_stop, room)

    shape = len(given), n_band + -n_band % block
    elsewhere = device != default_device()
    with jax.default_device(device) if elsewhere else nullcontext():
        series, filters = band_series(spectrum_of, shape, reach, new)
        series = jax.device_put(series)
    part = dataclasses.replace(
        data,
        series=series,
        filters=filters,
        band=dataclasses.replace(
            band,
            start=jnp.asarray(grid.start, jnp.float64),
            dt=jnp.asarray(grid.length / n_band, jnp.float64),
            dtau=jnp.asarray(passed.dtau, jnp.float64),
            heterodyne=band.heterodyne + offset / grid.length,
            fmin=jnp.asarray(fmin, jnp.float64),
            f_centre=jnp.asarray(fmin + (n_frequencies // 2) * spacing, jnp.float64),
            pass_low=jnp.asarray(pass_low, jnp.float64),
            pass_high=jnp.asarray(pass_high, jnp.float64),
            slack=jnp.zeros_like(band.slack),
        ),
        layout=new,
    )
    return jax.device_put(part, device) if elsewhere else part  # and the numbers of the band

"""Noise floors that are kept are those that would be estimated again, and are estimated once."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

import jfstat
from jfstat.data import keptnoise
from jfstat.data.keptnoise import KeptNoise
from jfstat.data.noise import Noise
from jfstat.data.plan import Search
from jfstat.data.prepare import prepared_for

START = 1167458304


@pytest.fixture(scope="module")
def sfts() -> jfstat.SFTs:
    return jfstat.simulate_sfts(["H1", "L1"], START, 43200, 99.6, 100.6, sqrt_sx={"H1": 4e-24, "L1": 6e-24}, seed=3)


def prepared(sfts: jfstat.SFTs, noise: Noise, fmin: float, segments: int | None) -> Any:
    search = Search(fmin, fmin + 0.01, 0.1, None, None)
    return prepared_for(sfts, search, START, noise, "DE405", segments, False)


@pytest.mark.parametrize("noise", [Noise(), Noise(median_bins=50), Noise(off_source=10)], ids=lambda own: own.words)
def test_data_are_the_same(sfts: jfstat.SFTs, noise: Noise) -> None:
    kept = KeptNoise.of_sfts(noise, sfts)
    for fmin, segments in [(100.0, 4), (100.0, None), (99.75, 3), (100.4, None)]:
        once, again = (prepared(sfts, own, fmin, segments) for own in (noise, kept))
        assert jax.tree.structure(once) == jax.tree.structure(again)
        for a, b in zip(jax.tree.leaves(once), jax.tree.leaves(again), strict=True):
            np.testing.assert_array_equal(a, b)


def test_each_floor_is_estimated_once(sfts: jfstat.SFTs, monkeypatch: pytest.MonkeyPatch) -> None:
    estimated: list[int] = []
    plain = Noise.psds

    def counting(self: Noise, series: Any, *how: Any) -> np.ndarray:
        if type(self) is Noise:
            estimated.append(len(series))
        return plain(self, series, *how)

    monkeypatch.setattr(Noise, "psds", counting)
    kept = KeptNoise.of_sfts(Noise(), sfts)
    for segments in (4, 2, None):
        prepared(sfts, kept, 100.0, segments)
    assert sum(estimated) == len(sfts)


def test_bad_bins_are_refused_where_they_are_used_only(sfts: jfstat.SFTs) -> None:
    series = sfts["H1"]
    data = series.data.copy()
    data[3, 20] = np.nan
    broken = replace(sfts, series=(replace(series, data=data), sfts["L1"]))
    kept = KeptNoise.of_sfts(Noise(), broken)
    for a, b in zip(*(jax.tree.leaves(prepared(broken, own, 100.3, 2)) for own in (Noise(), kept)), strict=True):
        np.testing.assert_array_equal(a, b)
    with pytest.raises(ValueError, match=f"the SFT of H1 at GPS {series.gps[3]} has bins that are not finite"):
        prepared(broken, kept, 99.7, 2)


def test_floors_of_large_sfts_or_given_ones_are_not_kept(sfts: jfstat.SFTs, monkeypatch: pytest.MonkeyPatch) -> None:
    assert type(KeptNoise.of_sfts(Noise(1e-23), sfts)) is Noise
    assert type(KeptNoise.of_sfts(Noise(), sfts)) is KeptNoise
    monkeypatch.setattr(keptnoise, "MOST_BYTES", sfts.nbytes - 1)
    assert type(KeptNoise.of_sfts(Noise(), sfts)) is Noise

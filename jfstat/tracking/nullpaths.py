"""Random paths through the frequencies of simulated tables, of which those count that stay where paths may be."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Paths(NamedTuple):
    """Random paths through the frequencies of a simulated table that count.

    Attributes
    ----------
    prior : (J,) float64
        Normalised log-probabilities of the jumps from -w to w.
    onward : (K, n) float64
        How probable jumps lead from a frequency at a segment, if it counts, to one that counts at the end; scaled, and
        1 if all count.
    allowed : (n,) bool
        Frequencies where paths may be.
    last : (n,) bool
        Frequencies where paths may end.
    log_share : float
        Logarithm of the probability that a path from anywhere that is allowed stays there and ends as it may.
    """

    prior: np.ndarray
    onward: np.ndarray
    allowed: np.ndarray
    last: np.ndarray
    log_share: float

    @classmethod
    def of(cls, weights: np.ndarray, n_segments: int, n: int, width: int, within: bool) -> Paths:
        """Return the paths through the first `width` of n frequencies, or, unless `within`, ending there.

        Raises
        ------
        ValueError
            If there is none.
        """
        prior = weights - np.logaddexp.reduce(weights)
        shares = np.exp(prior)
        last = np.arange(n) < width
        if np.all(last):
            return cls(prior, np.ones((n_segments, n)), last, last, 0.0)
        allowed = last if within else np.ones(n, bool)
        onward, total = [last.astype(np.float64)], 0.0
        for _ in range(n_segments - 1):
            before = allowed * (_around(onward[-1], len(shares)) @ shares)
            scale = np.max(before)
            if not scale:
                raise ValueError(
                    f"transitions lead all paths of {n_segments} segments out of the {width} frequencies: give a wider "
                    "band, or transitions that keep some within."
                )
            total += np.log(scale)
            onward.append(before / scale)
        total += np.log(np.sum(onward[-1]) / np.sum(allowed))
        return cls(prior, np.stack(onward[::-1]), allowed, last, float(total))

    def drawn(self, random: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        """Draw paths, (*shape, K) integers; the ends of the frequencies are joined."""
        n_segments, n = self.onward.shape
        shares, w = np.exp(self.prior), len(self.prior) // 2
        if np.all(self.last):  # then jumps are independent
            path = random.choice(len(shares), (*shape, n_segments), p=shares) - w
            path[..., 0] = random.integers(0, n, shape)
            return np.cumsum(path, axis=-1)
        path = [random.choice(n, shape, p=self.onward[0] / np.sum(self.onward[0]))]
        for onward in self.onward[1:]:
            chances = np.cumsum(_around(onward, len(shares))[path[-1]] * shares, axis=-1)
            jump = np.sum(random.random(shape)[..., None] * chances[..., -1:] >= chances, axis=-1) - w
            path.append((path[-1] + jump) % n)
        return np.stack(path, axis=-1)


def _around(x: np.ndarray, n: int) -> np.ndarray:
    """Return the n values around each of some values whose ends are joined, (len(x), n)."""
    return np.lib.stride_tricks.sliding_window_view(np.pad(x, n // 2, mode="wrap"), n)

"""Trial points around a candidate, in whitened coordinates."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.stats import norm, qmc

RADIUS = 1.6
"""Radius of the ball of trial points: beyond it, the candidate's own peak has less than a fifth of its rho^2."""


@lru_cache
def trial_points(p: int, n: int) -> np.ndarray:
    """The origin and n - 1 points that fill the ball around it evenly, (n, p) float64: a Sobol sequence."""
    if n == 1:
        return np.zeros((1, p))
    sequence = qmc.Sobol(p + 1, rng=0).random_base2(int(np.ceil(np.log2(n))))[: n - 1]
    sequence = np.clip(sequence, 1e-12, 1 - 1e-12)
    direction = norm.ppf(sequence[:, :p])
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.concatenate([np.zeros((1, p)), RADIUS * sequence[:, p:] ** (1 / p) * direction])

"""Points that fill a ball evenly."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import ndtri


@lru_cache
def ball_points(p: int, n: int, radius: float) -> np.ndarray:
    """The origin and n - 1 points that fill the ball around it evenly, (n, p) float64: a Sobol sequence."""
    from scipy.stats import qmc  # takes 0.2 s to import

    if n == 1:
        return np.zeros((1, p))
    sequence = qmc.Sobol(p + 1, rng=0).random_base2(int(np.ceil(np.log2(n))))[: n - 1]
    sequence = np.clip(sequence, 1e-12, 1 - 1e-12)
    direction = ndtri(sequence[:, :p])
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    return np.concatenate([np.zeros((1, p)), radius * sequence[:, p:] ** (1 / p) * direction])

"""Discrete Fourier transforms of a few complex numbers, as straight-line code on lists of arrays.

A complex number is a pair (real, imaginary) of float32 arrays, elementwise; the transformed axis is a Python list. GPU
kernels hold such lists in registers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

Complex = tuple[Any, Any]


def _add(a: Complex, b: Complex) -> Complex:
    return a[0] + b[0], a[1] + b[1]


def _subtract(a: Complex, b: Complex) -> Complex:
    return a[0] - b[0], a[1] - b[1]


def multiply(a: Complex, b: Complex) -> Complex:
    """a b."""
    return a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]


def _rotate(a: Complex, numerator: int, denominator: int) -> Complex:
    """a exp(-2 pi i numerator/denominator); multiples of an eighth of a turn cost little or nothing."""
    numerator %= denominator
    eighths, rest = divmod(8 * numerator, denominator)
    x, y = a
    if rest == 0:
        half = math.sqrt(0.5)
        return [
            lambda: (x, y),
            lambda: ((x + y) * half, (y - x) * half),
            lambda: (y, -x),
            lambda: ((y - x) * half, (x + y) * -half),
            lambda: (-x, -y),
            lambda: ((x + y) * -half, (x - y) * half),
            lambda: (-y, x),
            lambda: ((x - y) * half, (x + y) * half),
        ][eighths]()
    c = math.cos(2 * math.pi * numerator / denominator)
    s = math.sin(2 * math.pi * numerator / denominator)
    return x * c + y * s, y * c - x * s


def _prime(x: Sequence[Complex]) -> Iterator[tuple[int, Complex]]:
    """Transform of an odd prime length, by sums and differences of opposite elements."""
    n = len(x)
    half = range(1, (n - 1) // 2 + 1)
    sums = [_add(x[j], x[n - j]) for j in half]
    differences = [_subtract(x[j], x[n - j]) for j in half]
    total = x[0]
    for s in sums:
        total = _add(total, s)
    yield 0, total
    for k in half:
        real, imaginary = x[0]
        v_real = v_imaginary = None
        for j in half:
            c, d = math.cos(2 * math.pi * j * k / n), math.sin(2 * math.pi * j * k / n)
            real, imaginary = real + sums[j - 1][0] * c, imaginary + sums[j - 1][1] * c
            a, b = differences[j - 1][0] * d, differences[j - 1][1] * d
            v_real = a if v_real is None else v_real + a
            v_imaginary = b if v_imaginary is None else v_imaginary + b
        yield k, (real + v_imaginary, imaginary - v_real)
        yield n - k, (real - v_imaginary, imaginary + v_real)


def transform(x: Sequence[Complex]) -> Iterator[tuple[int, Complex]]:
    """Pairs (k, X_k) with X_k = sum_p x[p] exp(-2 pi i p k / n), each yielded as soon as it is computed.

    Powers of two by radix 4, coprime factors by Good and Thomas' mapping, which needs no twiddles.
    """
    n = len(x)
    even = n & -n
    odd = n // even
    if n == 1:
        yield 0, x[0]
    elif n == 2:
        yield 0, _add(x[0], x[1])
        yield 1, _subtract(x[0], x[1])
    elif n == 4:
        a, b = _add(x[0], x[2]), _subtract(x[0], x[2])
        c, d = _add(x[1], x[3]), _subtract(x[1], x[3])
        yield 0, _add(a, c)
        yield 2, _subtract(a, c)
        yield 1, (b[0] + d[1], b[1] - d[0])
        yield 3, (b[0] - d[1], b[1] + d[0])
    elif odd > 1 and even > 1:
        inner = [in_order([x[(even * i + odd * j) % n] for j in range(even)]) for i in range(odd)]
        place = {(k % odd, k % even): k for k in range(n)}
        for k_even in range(even):
            for k_odd, value in transform([inner[i][k_even] for i in range(odd)]):
                yield place[k_odd, k_even], value
    else:
        outer = next(r for r in ((2,) if n == 8 else (4, 3, 5, 7, 11, 13)) if n % r == 0)
        if outer == n:
            yield from _prime(x)
            return
        length = n // outer
        inner = [in_order(x[i::outer]) for i in range(outer)]
        for k in range(length):
            for q, value in transform([_rotate(inner[i][k], i * k, n) for i in range(outer)]):
                yield k + length * q, value


def in_order(x: Sequence[Complex]) -> list[Complex]:
    """The transform as a list."""
    values = dict(transform(x))
    return [values[k] for k in range(len(x))]


def divide(a: jax.Array, n: int) -> jax.Array:
    """a // n for a >= 0 by plain machine division; ``//`` would also handle signs."""
    return lax.div(a, jnp.full(jnp.shape(a), n, a.dtype))


def remainder(a: jax.Array, n: int) -> jax.Array:
    """a % n for a >= 0."""
    return lax.rem(a, jnp.full(jnp.shape(a), n, a.dtype))


def unit_root(t: jax.Array, n: int) -> Complex:
    """exp(-2 pi i t/n), float32, for int32 0 <= t < n < 2e8.

    The nearest quarter turn is subtracted in integers, so that the angle is right to 1e-8 cycles for any n.
    """
    quarters = divide(8 * t + n, 2 * n)
    x = (4 * t - quarters * n).astype(jnp.float32) * np.float32(math.pi / 2 / n)  # at most pi/4
    y = x * x
    # polynomials of the Cephes library for single precision
    sin = x + x * y * (-1.6666654611e-1 + y * (8.3321608736e-3 + y * -1.9515295891e-4))
    cos = 1.0 + y * (-0.5 + y * (4.166664568298827e-2 + y * (-1.388731625493765e-3 + y * 2.443315711809948e-5)))
    swap = (quarters & 1) != 0
    sin, cos = jnp.where(swap, cos, sin), jnp.where(swap, sin, cos)
    cos = jnp.where(((quarters + 1) & 2) != 0, -cos, cos)
    return cos, jnp.where((quarters & 2) != 0, sin, -sin)


class Twiddles:
    """``first exp(-2 pi i t q/n)`` for integers q, as products of few factors, which need few registers.

    Parameters
    ----------
    t : (...) int32
        0 <= t q < n for all q that are used.
    n : int
    first : Complex, optional
        Common factor; 1 by default.
    """

    def __init__(self, t: jax.Array, n: int, first: Complex | None = None) -> None:
        self._t, self._n, self._first = t, n, first
        self._powers: dict[int, Complex] = {}
        self._firsts: dict[int, Complex] = {}

    def _power(self, q: int) -> Complex:
        if q not in self._powers:
            low = q & -q
            if q == low:
                self._powers[q] = unit_root(self._t * np.int32(q), self._n)
            else:
                self._powers[q] = multiply(self._power(q - low), self._power(low))
        return self._powers[q]

    def times(self, q: int, value: Complex) -> Complex:
        """The value times the factor for q."""
        coarse, fine = q & ~7, q & 7
        factor = self._first
        if coarse:
            if coarse not in self._firsts:
                power = self._power(coarse)
                self._firsts[coarse] = power if factor is None else multiply(factor, power)
            factor = self._firsts[coarse]
        if fine:
            power = self._power(fine)
            factor = power if factor is None else multiply(factor, power)
        return value if factor is None else multiply(value, factor)

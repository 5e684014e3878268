"""Make an optax transformation a static argument of compiled code, compared and named by what it does."""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.validation import shown

if TYPE_CHECKING:
    import optax

PLAIN = (bool, int, float, complex, str, bytes, np.dtype, np.generic, type(None))
"""Values that cannot change, compared by type and text."""
FIXED = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)
"""Types of values that are compared by identity."""
WRAPPERS = ("with_extra_args_support",)
"""Functions of optax that are not worth naming, apart from what they wrap."""


class Optimizer:
    """Optax transformation that equals others made in the same way, so that compiled programs are reused.

    Two calls of ``optax.adam(0.1)`` give closures that Python treats as different. They are equivalent if their
    functions are optax's and the values in the closures are equal, closures within closures included. Functions that
    are not optax's, such as a user's schedule, may depend on anything and are compared by identity.

    Parameters
    ----------
    transformation : optax.GradientTransformation
        Transformation, or any other object with functions `init` and `update` like optax's.

    Raises
    ------
    ValueError
        If `transformation` is anything else.
    """

    def __init__(self, transformation: optax.GradientTransformation):
        functions = [None, None]
        if not isinstance(transformation, type):
            functions = [getattr(transformation, name, None) for name in ("init", "update")]
        if not all(map(callable, functions)):
            raise ValueError(
                f"optimizer must be an optax transformation such as optax.lbfgs(), not {shown(transformation)}."
            )
        self.transformation = transformation
        self._functions = tuple(functions)
        self._likeness = tuple(_likeness(function, ()) for function in functions)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Optimizer):
            return NotImplemented
        return self._functions == other._functions or self._likeness == other._likeness

    def __hash__(self) -> int:
        return hash(self._likeness)

    @property
    def name(self) -> str:
        """Functions that it is made of, with the numbers in them: ``scale_by_adam(b1=0.9, ...),
        scale(step_size=-0.1)``."""
        return _described(self._functions[1])

    def check(self, p: int) -> None:
        """Raise a ValueError unless the transformation turns a gradient of p parameters into steps.

        Raises
        ------
        ValueError
            If it fails, or its steps have another shape or type.
        """

        def first_step(x: jax.Array) -> jax.Array:
            return self.update(x, self.init(x), x, jnp.sum(x * x), lambda y: jnp.sum(y * y))[0]

        try:
            step = jax.eval_shape(first_step, jax.ShapeDtypeStruct((p,), jnp.float64))
        except Exception as error:  # whatever a foreign function raises
            raise ValueError(f"optimizer fails with {p} parameters: {type(error).__name__}: {error}") from error
        if getattr(step, "shape", None) != (p,) or getattr(step, "dtype", None) != jnp.float64:
            raise ValueError(f"optimizer makes {step} of the gradient of {p} parameters, not a step in float64.")

    def init(self, x: jax.Array) -> Any:
        """Return the state before the first step, given the starting point, (p,) float64."""
        with jax.numpy_dtype_promotion("standard"):  # optax mixes precisions
            return jax.tree.map(jnp.asarray, self.transformation.init(x))

    def update(
        self,
        gradient: jax.Array,
        state: Any,
        x: jax.Array,
        value: jax.Array,
        function: Callable[[jax.Array], jax.Array],
    ) -> tuple[jax.Array, Any]:
        """Return a step that lowers a function, (p,), and the state after it.

        Parameters
        ----------
        gradient : (p,) float64
        state
        x : (p,) float64
        value : () float64
        function : callable
            Function for line searches, from (p,) to () float64.
        """
        import optax

        step: Any
        known = optax.with_extra_args_support(self.transformation)
        with jax.numpy_dtype_promotion("standard"):
            step, new = known.update(gradient, state, x, value=value, grad=gradient, value_fn=function)
            new = jax.tree.map(jnp.asarray, new)
        # loops need states of fixed types, which schedules may change
        return step, jax.tree.map(lambda a, b: a if a.dtype == b.dtype else a.astype(b.dtype), new, state)


class _Same:
    """Value compared by identity."""

    def __init__(self, thing: object):
        self.thing = thing

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.thing is other.thing

    def __hash__(self) -> int:
        return id(self.thing)


def _likeness(x: Any, within: tuple[int, ...]) -> Any:
    """Return a hashable that is equal for equivalent values; `within` holds the ids of the values that contain this
    one."""
    if id(x) in within:
        return "again", len(within) - within.index(id(x))
    within = (*within, id(x))
    if isinstance(x, PLAIN):
        return type(x), repr(x)
    if isinstance(x, (np.ndarray, jax.Array)) and x.dtype != object:
        values = np.asarray(x)
        return "array", str(values.dtype), values.shape, values.tobytes()
    if isinstance(x, (tuple, list)):
        return type(x), tuple(_likeness(one, within) for one in x)
    if isinstance(x, dict):
        return dict, tuple((_likeness(key, within), _likeness(one, within)) for key, one in x.items())
    if isinstance(x, partial):
        return partial, *(_likeness(one, within) for one in (x.func, x.args, x.keywords))
    if isinstance(x, types.FunctionType) and _is_of_optax(x):
        held = (x.__defaults__, x.__kwdefaults__, *_held(x).values())
        return _Same(x.__code__), tuple(_likeness(one, within) for one in held)
    if isinstance(x, FIXED):
        return _Same(x)
    return _Same(object())  # it may change, so it equals nothing else


def _is_of_optax(function: types.FunctionType) -> bool:
    return str(function.__module__).split(".")[0] == "optax"


def _described(function: Any) -> str:
    """Return the name of what made a function, with the numbers and functions in its closure."""
    maker = _maker(function)
    if maker in WRAPPERS:
        return ", ".join(_described(x.update) for x in _held(function).values())
    numbers: dict[str, Any] = {}
    parts: list[str] = []
    waiting, seen = [function], {id(function)}
    while waiting:  # functions that were made together share their closure
        for name, x in _held(waiting.pop()).items():
            for part in x if isinstance(x, (tuple, list)) else (x,):
                if isinstance(part, types.FunctionType) and id(part) not in seen:
                    seen.add(id(part))
                    if _maker(part) == maker and part is x:
                        waiting.append(part)
                    else:
                        parts.append(_described(part))
                elif isinstance(part, (bool, int, float, str)) and part is not False:
                    numbers[name] = part
    # of several functions that were made together one is enough: the one with the largest closure
    best: dict[str, str] = {}
    for i, part in enumerate(parts):
        key = part.split("(")[0] if maker != "chain" else str(i)
        best[key] = max(best.get(key, ""), part, key=len)
    texts = [f"{name}={x}" for name, x in sorted(numbers.items())] + [x for x in best.values() if x != "identity"]
    return f"{maker}({', '.join(texts)})" if texts else maker


def _maker(function: Any) -> str:
    """Return the name of the function in which a function was defined, or its own."""
    return getattr(function, "__qualname__", type(function).__qualname__).split(".<locals>")[0]


def _held(function: Any) -> dict[str, Any]:
    """Return the values in a function's closure, by name."""
    if not isinstance(function, types.FunctionType):
        return {}
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    # a name that its function has not yet given a value has an empty cell
    return {name: cell.cell_contents for name, cell in cells.items() if cell != types.CellType()}

"""Define a user's own phase evolution: a function of source time and parameters that is added to a template's phase."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfstat.display import Displayed, Facts, brief
from jfstat.signal.parameters import MODEL
from jfstat.validation import as_float64, require, require_x64, shown


@jax.tree_util.register_pytree_with_keys_class
class PhaseModel(Displayed):
    """A user's own phase evolution, added to the phase of a `Doppler`: a glitch, a wandering spin, a recovery.

    The phase of the signal at the source is ``fkdot``'s Taylor series plus ``function(t, parameters)``, in cycles; the
    amplitude parameter phi0 is the phase of the Taylor series alone at the reference time.

    Parameters
    ----------
    function : callable
        ``function(t, parameters)``: the phase in cycles, () float64, at one source time `t`, () float64: seconds since
        the template's reference time, in the SSB or, with an orbit, at the source. It must be finite at all times, also
        before and after the data, and traceable by JAX; jfstat applies it to many times by vmap. Its derivatives by `t`
        are taken in forward mode, and those by the parameters, for gradients, in both: a derivative of your own is
        given by `jax.custom_jvp`, which can be differentiated again, not by `jax.custom_vjp`. Define it once and not
        anew for each template: programs are compiled for each function, but not for each value of the parameters.
    parameters : pytree of numbers or arrays
        Parameters of the function, all converted to float64. In a stack of templates every one has the stack's leading
        axes; a plain number holds for all templates. Numbers in ``{"df": 1e-7, "c": [0.1, 0.2]}`` are called
        ``model.df``, ``model.c[0]`` and ``model.c[1]`` in tables, `metric`, `whiten`, `refine` and `model`.

    Raises
    ------
    TypeError
        If `function` cannot be called, or cannot be hashed.
    ValueError
        If a parameter is not numeric or not finite.
    """

    function: Callable[[jax.Array, Any], jax.Array]
    parameters: Any

    def __init__(self, function: Callable[[jax.Array, Any], jax.Array], parameters: Any = ()):
        require_x64()
        if not callable(function):
            raise TypeError(
                f"function must be called as function(t, parameters), not be {shown(function)}: define one."
            )
        try:
            hash(function)
        except TypeError:
            raise TypeError(
                f"function, {type(function).__name__}, cannot be hashed, perhaps since it holds arrays: give those as "
                "parameters (eqx.partition takes them from an equinox Module)."
            ) from None
        self.function = function
        try:
            self.parameters = jax.tree.map(_parameter, parameters, is_leaf=_is_numbers)
        except (TypeError, ValueError) as error:  # from JAX if this is no pytree, or from a parameter
            raise type(error)(f"parameters: {error}") from error

    def cycles(self, t: jax.Array) -> jax.Array:
        """Return the phase in cycles, float64, at source times `t`, s since the reference time, of any shape."""
        return jax.vmap(lambda one: self.function(one, self.parameters))(t.reshape(-1)).reshape(t.shape)

    def frequency(self, t: jax.Array) -> jax.Array:
        """Return the derivative of `cycles`, Hz, in the shape of `t`."""
        return jax.jvp(self.cycles, (t,), (jnp.ones_like(t),))[1]

    def for_stack(self, shape: tuple[int, ...]) -> PhaseModel:
        """Return the model of a stack of templates of a shape: plain numbers hold for all of them.

        Raises
        ------
        ValueError
            If an array does not have the stack's leading axes.
        """

        def leaf(x: jax.Array) -> jax.Array:
            if x.ndim == 0:
                return jnp.broadcast_to(x, shape) if shape else x
            if x.shape[: len(shape)] != shape:
                raise ValueError(
                    f"a parameter of the model has shape {x.shape}, but the other fields of the template {shape}: give "
                    "it these leading axes, or one number."
                )
            return x

        return PhaseModel.tree_unflatten(self.function, [jax.tree.map(leaf, self.parameters)])

    def check(self) -> None:
        """Raise an error unless the function takes one time to one float64 number and has a slope; for one template.

        Raises
        ------
        TypeError
            If it has a derivative in reverse mode only.
        ValueError
            If it returns anything else.
        """
        leaves, tree = jax.tree.flatten(self.parameters)
        _check_function(self.function, tree, tuple((jnp.shape(x), jnp.result_type(x)) for x in leaves))

    def places(self, n_axes: int) -> dict[str, tuple[int, tuple[int, ...]]]:
        """Return all parameters' names, each with the number of its leaf and its index there, after `n_axes` axes."""
        found = {}
        for number, (path, leaf) in enumerate(jax.tree_util.tree_leaves_with_path(self.parameters)):
            word = jax.tree_util.keystr(path, simple=True, separator=".")
            stem = f"{MODEL}.{word}" if word else MODEL
            for place in np.ndindex(np.shape(leaf)[n_axes:]):
                found[stem + (f"[{','.join(map(str, place))}]" if place else "")] = number, place
        return found

    def value(self, name: str, n_axes: int) -> jax.Array:
        """Return the value of the parameter with this name, for a stack with `n_axes` axes."""
        number, place = self.places(n_axes)[name]
        return jax.tree.leaves(self.parameters)[number][(..., *place)]

    def replaced(self, values: Mapping[str, jax.Array | np.ndarray], n_axes: int) -> PhaseModel:
        """Return the model with new values of some parameters, by name; traceable."""
        leaves, tree = jax.tree.flatten(self.parameters)
        places = self.places(n_axes)
        for name, x in values.items():
            number, place = places[name]
            leaves[number] = leaves[number].at[(..., *place)].set(x)
        return PhaseModel.tree_unflatten(self.function, [jax.tree.unflatten(tree, leaves)])

    def first(self, n_axes: int) -> PhaseModel:
        """Return the model of the first template of a stack with `n_axes` axes."""
        one = jax.tree.map(lambda x: jnp.asarray(x)[(0,) * n_axes], self.parameters)
        return PhaseModel.tree_unflatten(self.function, [one])

    def repeated(self, n: int) -> PhaseModel:
        """Return the model of one template for each of a stack of n."""
        repeat = jax.tree.map(lambda x: jnp.broadcast_to(x, (n, *jnp.shape(x))), self.parameters)
        return PhaseModel.tree_unflatten(self.function, [repeat])

    def tree_flatten_with_keys(self) -> tuple[list[tuple[Any, Any]], Callable[[jax.Array, Any], jax.Array]]:
        """Flatten the model for JAX: the parameters are leaves, the function is static."""
        return [(jax.tree_util.GetAttrKey("parameters"), self.parameters)], self.function

    @classmethod
    def tree_unflatten(cls, function: Callable[[jax.Array, Any], jax.Array], children: Any) -> PhaseModel:
        """Rebuild the model without checks, because JAX replaces leaves by placeholders."""
        model = object.__new__(cls)
        model.function, (model.parameters,) = function, children
        return model

    def _facts(self) -> Facts:
        leaves = jax.tree_util.tree_leaves_with_path(self.parameters)
        own = [(jax.tree_util.keystr(path, simple=True, separator=".") or "parameters", brief(x)) for path, x in leaves]
        return Facts(f"PhaseModel of {getattr(self.function, '__name__', self.function)}", own)


def _is_numbers(x: Any) -> bool:
    """Return whether a list holds plain numbers only, and so is one array; otherwise it is a tree."""
    return isinstance(x, list) and bool(x) and all(isinstance(value, (int, float)) for value in x)


def _parameter(x: Any) -> jax.Array:
    value = as_float64(x, "a parameter of the model")
    require(value, "a parameter of the model", np.isfinite, "finite", "give numbers")
    return value


@lru_cache(maxsize=64)  # tracing takes milliseconds, and templates are many
def _check_function(function: Callable[[jax.Array, Any], jax.Array], tree: Any, leaves: Any) -> None:
    """Raise the errors of `PhaseModel.check` for a function and its parameters' structure, shapes and dtypes."""
    time, parameters = (
        jax.ShapeDtypeStruct((), jnp.float64),
        jax.tree.unflatten(tree, [jax.ShapeDtypeStruct(*leaf) for leaf in leaves]),
    )
    found = jax.eval_shape(function, time, parameters)
    if getattr(found, "shape", None) != () or getattr(found, "dtype", None) != jnp.float64:
        what = f"a {type(found).__name__}"
        if hasattr(found, "dtype"):
            what = f"an array of shape {found.shape}, {found.dtype},"
        raise ValueError(f"the function of the model returns {what} for one time, not one float64 number of cycles.")
    slope = jax.make_jaxpr(lambda t, p: jax.jvp(lambda t: function(t, p), (t,), (t,)))(time, parameters)
    if "custom_lin" in str(slope):  # JAX's place for a derivative that is missing, which fails once it is compiled
        raise TypeError(
            "the function of the model has a derivative by jax.custom_vjp, and derivatives in forward mode are "
            "needed: give it by jax.custom_jvp."
        )

"""Cache of traced programs on disk: a later process loads in milliseconds what takes seconds to trace.

JAX's compilation cache spares a process XLA's work, but not the tracing and lowering that make the program which XLA
compiles. These are kept here beside it, in the form of `jax.export`.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from pathlib import Path
from threading import RLock
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.sharding import SingleDeviceSharding

from jfstat.diskcache import DiskCache
from jfstat.maths.arrays import is_traced, within_trace
from jfstat.processor import processor_kind

KEPT = DiskCache("jfstat-traced", ".traced", 512 << 20)
"""Traced programs on disk."""
DIGEST = 32
"""Number of bytes of the digest with which each file begins."""
SETTINGS = ("enable_x64", "default_matmul_precision", "numpy_dtype_promotion", "numpy_rank_promotion")
"""Settings of JAX under which programs are traced differently."""
UNKEPT = ("debug_nans", "debug_infs", "default_device", "disable_jit")
"""Settings of JAX under which nothing is kept: programs are then looked into, or run elsewhere."""
PACKAGES = ("jax", "jaxlib", "numpy", "optax")
"""Packages whose versions make a difference to what is traced."""


class Unkept(Exception):
    """A program that cannot be kept: it takes what has no name in another process, or a value that JAX traces."""


class TracedPrograms:
    """The programs of one function, each for one kind of arguments.

    Parameters
    ----------
    function : callable
        Of the package's own; what it computes depends on its arguments alone.
    static : collection of str
        Names of its static arguments.
    jit : callable
        Compiles functions, as `jax.jit`.
    """

    def __init__(self, function: Callable[..., Any], static: Collection[str], jit: Callable[..., Any]):
        self._function, self._jit = function, jit
        self._static = [name in static for name in signature(function).parameters]
        self._static_names = frozenset(static)
        self._programs: dict[Any, Any] = {}
        self._lock = RLock()

    def program(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, list[Any]] | None:
        """Return a function, and the arrays to call it with, that compute the same; None if the program is not kept."""
        if KEPT.folder() is None or within_trace():
            return None
        try:
            place, tree, leaves, kind = self._kind(args, kwargs)
        except Unkept:
            return None
        with self._lock:  # other threads would trace the same
            if kind not in self._programs:
                self._programs[kind] = self._made(place, tree, leaves, kind)
            program = self._programs[kind]
        return None if program is None else (program, leaves)

    def _kind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, Any, list[Any], Any]:
        """Return the static arguments, the structure and leaves of the others, and all that a program depends on."""
        settings = tuple(getattr(jax.config, f"jax_{name}") for name in SETTINGS)
        if any(getattr(jax.config, f"jax_{name}") for name in UNKEPT) or not jax.sharding.get_abstract_mesh().empty:
            raise Unkept
        at = tuple(x for x, static in zip(args, self._static, strict=False) if static)
        named = tuple((name, x) for name, x in sorted(kwargs.items()) if name in self._static_names)
        others = [x for x, static in zip(args, self._static, strict=False) if not static]
        leaves, tree = jax.tree.flatten((others, {k: x for k, x in kwargs.items() if k not in self._static_names}))
        place = at, named, len(args)
        kind = settings, place, tree, tuple(map(_kind_of, leaves)), _device_of(leaves)
        try:
            hash(kind)
        except TypeError:
            raise Unkept from None
        return place, tree, leaves, kind

    def _made(self, place: Any, tree: Any, leaves: list[Any], kind: Any) -> Any:
        """Return the program for a kind of arguments, from the disk or traced; None if it cannot be kept."""
        settings, _, _, kinds, device = kind
        try:
            name = [
                self._function.__module__,
                self._function.__qualname__,
                settings,
                spelled(place),
                _spelled_tree(tree),
            ]
        except Unkept:
            return None
        words = repr([*name, [(shape, str(dtype), weak) for shape, dtype, weak in kinds], _surroundings()])
        key = hashlib.sha256(words.encode()).hexdigest()
        try:
            loaded = _read(key) or self._traced(key, place, tree, kinds)
        except Exception:  # the function's own errors are raised when it is called as usual
            return None
        exported, out_tree = loaded

        def called(*leaves: Any) -> Any:
            return jax.tree.unflatten(out_tree, exported.call(*leaves))

        called.__name__ = self._function.__name__
        # JAX binds such a program's results to a device; named here, it is the same program for arrays bound or not
        own = SingleDeviceSharding(device)
        return self._jit(called, in_shardings=own, out_shardings=own)

    def _traced(self, key: str, place: Any, tree: Any, kinds: Any) -> tuple[export.Exported, Any]:
        """Trace a program and keep it on disk."""
        at, named, n = place
        out_tree: Any = None

        def flat(*leaves: Any) -> list[Any]:
            nonlocal out_tree
            others, kwargs = jax.tree.unflatten(tree, leaves)
            statics, rest = iter(at), iter(others)
            args = [next(statics if static else rest) for static in self._static[:n]]
            found, out_tree = jax.tree.flatten(self._function(*args, **kwargs, **dict(named)))
            return found

        given = [jax.ShapeDtypeStruct(shape, dtype, weak_type=weak) for shape, dtype, weak in kinds]
        exported = export.export(jax.jit(flat))(*given)
        if any(x.weak_type for x in exported.out_avals):  # which files do not tell
            raise Unkept
        content = pickle.dumps((bytes(exported.serialize()), out_tree))
        KEPT.write(key, hashlib.sha256(content).digest() + content)
        return _loaded(content)


def _read(key: str) -> tuple[export.Exported, Any] | None:
    """Return a program and the structure of its results from the disk; None if they are not there, or damaged."""
    content = KEPT.read(key)
    if content is None or hashlib.sha256(content[DIGEST:]).digest() != content[:DIGEST]:
        return None
    return _loaded(content[DIGEST:])


def _loaded(content: bytes) -> tuple[export.Exported, Any]:
    program, out_tree = pickle.loads(content)
    return export.deserialize(bytearray(program)), out_tree


def _kind_of(leaf: Any) -> tuple[tuple[int, ...], Any, bool]:
    """Return what programs depend on of an array or number: shape, dtype, and whether its dtype is weak."""
    if is_traced(leaf):
        raise Unkept
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf.shape, leaf.dtype, leaf.weak_type
    try:
        found: Any = jax.typeof(leaf)
    except TypeError:
        raise Unkept from None
    if jnp.issubdtype(found.dtype, jax.dtypes.extended):  # keys of random numbers
        raise Unkept
    return found.shape, found.dtype, found.weak_type


def _device_of(leaves: Sequence[Any]) -> Any:
    """Return the device that arrays are bound to, or the first one if they are bound to none."""
    bound = set()
    for leaf in leaves:
        sharding = getattr(leaf, "sharding", None)
        if sharding is None or not getattr(leaf, "committed", True):
            continue
        if not isinstance(sharding, SingleDeviceSharding):
            raise Unkept
        bound |= sharding.device_set
    device = bound.pop() if bound else jax.local_devices()[0]
    if bound or device.platform != jax.default_backend():
        raise Unkept
    return device


def spelled(x: Any) -> str:
    """Return a text that says the same of a static value in every process.

    Raises
    ------
    Unkept
        If there is none: of what is not jfstat's own, such as users' functions, which may change.
    """
    if x is None or isinstance(x, (bool, int, float, complex, str, bytes)):
        return repr(x)
    if isinstance(x, np.generic):
        return f"{x.dtype}({x.tobytes().hex()})"
    if isinstance(x, np.dtype):
        return f"dtype({x})"
    if isinstance(x, np.ndarray) and not x.dtype.hasobject:
        return f"{x.dtype}{x.shape}:{hashlib.sha256(np.ascontiguousarray(x).tobytes()).hexdigest()}"
    if type(x) in (tuple, list):
        return f"{type(x).__name__}({', '.join(map(spelled, x))})"
    if type(x) is dict:
        return f"{{{', '.join(sorted(f'{spelled(k)}: {spelled(v)}' for k, v in x.items()))}}}"
    if type(x) in (set, frozenset):
        return f"set({', '.join(sorted(spelled(each) for each in x))})"
    if isinstance(x, type) or (callable(x) and hasattr(x, "__qualname__")):
        return _own_name(x)
    own = _own_name(type(x))
    if isinstance(x, Enum):
        return f"{own}.{x.name}"
    if isinstance(x, tuple):  # a named one
        return f"{own}({', '.join(map(spelled, x))})"
    if is_dataclass(x):
        return f"{own}({', '.join(f'{f.name}={spelled(getattr(x, f.name))}' for f in fields(x))})"
    raise Unkept


def _own_name(x: Any) -> str:
    """Return the full name of a class or function of jfstat's modules."""
    name, module = x.__qualname__, x.__module__ or ""
    if module.partition(".")[0] != __name__.partition(".")[0] or "<" in name:
        raise Unkept
    return f"{module}.{name}"


def _spelled_tree(tree: Any) -> str:
    """Return a text that says the same of a pytree's structure in every process."""
    known = tree.node_data()
    if known is None:  # a leaf
        return "*"
    kind, data = known
    name = kind.__name__ if kind in (tuple, list, dict, type(None)) else _own_name(kind)
    return f"{name}[{spelled(data)}]({', '.join(map(_spelled_tree, tree.children()))})"


@cache
def _surroundings() -> tuple[str, ...]:
    """Return what programs depend on beside a function's arguments: sources, versions, the kind of machine."""
    return _sources(), *map(_version, PACKAGES), export.default_export_platform(), *processor_kind()


@cache
def _sources() -> str:
    """Return a digest of the package's sources."""
    digest = hashlib.sha256()
    folder = Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""

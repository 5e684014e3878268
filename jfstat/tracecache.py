"""Cache of traced programs on disk: a later process loads in milliseconds what takes seconds to trace.

JAX's compilation cache spares a process XLA's work, but not the tracing and lowering that make the program which XLA
compiles. These are kept here beside it, in the form of `jax.export`.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, reduce
from importlib.metadata import PackageNotFoundError, version
from inspect import signature
from pathlib import Path
from threading import RLock
from types import FunctionType
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import export
from jax.sharding import SingleDeviceSharding

from jfstat.collecting import no_collection
from jfstat.diskcache import DiskCache
from jfstat.maths.arrays import is_traced
from jfstat.processor import processor_kind

TRACED = DiskCache("jfstat-traced", ".traced", 512 << 20)
"""Traced programs on disk."""
DIGEST = 32
"""Number of bytes of the digest with which each file begins, against damage."""
MOST_PROGRAMS = 256
"""Number of programs of a function that a process remembers."""
SETTINGS = ("enable_x64", "default_matmul_precision", "numpy_dtype_promotion", "numpy_rank_promotion")
"""Settings of JAX under which the package's functions are traced differently; they draw no random numbers."""
STOPPING = ("debug_nans", "debug_infs", "default_device", "disable_jit")
"""Settings of JAX under which nothing is taken from disk: programs are then looked into, or run elsewhere."""
PACKAGES = ("jax", "jaxlib", "numpy", "optax")
"""Packages whose versions make a difference to what is traced."""
_IMPORTED = time.time_ns()


class Unnamed(Exception):
    """What a program takes has no name that says the same in another process, or is not known yet."""


class Kind(NamedTuple):
    """All that a program depends on beside the function, its sources and the machine.

    Attributes
    ----------
    settings : tuple
        Of JAX; see `SETTINGS`.
    static : tuple
        The static arguments: those given by position, and names and values of the others.
    n_positional : int
        Number of arguments given by position.
    tree : PyTreeDef
        Structure of the arguments that are not static.
    leaves : tuple of (shape, dtype, weak)
        Of their arrays and numbers.
    device : Device
        Where the program runs.
    """

    settings: tuple[Any, ...]
    static: tuple[tuple[Any, ...], tuple[tuple[str, Any], ...]]
    n_positional: int
    tree: Any
    leaves: tuple[tuple[tuple[int, ...], Any, bool], ...]
    device: Any


class TracedPrograms:
    """The programs of one function, each for one kind of arguments, from the disk if they are there.

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
        self._is_static = [name in static for name in signature(function).parameters]
        self._static_names = frozenset(static)
        self._programs: OrderedDict[Kind, Callable[..., Any]] = OrderedDict()
        self._lock = RLock()

    def program(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, list[Any]] | None:
        """Return a compiled function and the arrays with which it computes what the function does with some arguments.

        None if there is no such program: JAX keeps nothing on disk, or the arguments have no name. The caller must not
        be traced.
        Results are bound to the device, where those of a function that JAX compiles are bound only if its arguments
        are.
        """
        if TRACED.folder() is None:
            return None
        try:
            kind, leaves = self._kind(args, kwargs)
            with self._lock:  # other threads would trace the same
                program = self._programs.pop(kind, None) or self._made(kind)
                self._programs[kind] = program
                if len(self._programs) > MOST_PROGRAMS:
                    self._programs.popitem(last=False)
        except Unnamed:
            return None
        return program, leaves

    def _kind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Kind, list[Any]]:
        """Return what a program depends on, and the leaves of the arguments that are not static."""
        if any(getattr(jax.config, f"jax_{name}") for name in STOPPING) or not jax.sharding.get_abstract_mesh().empty:
            raise Unnamed
        if len(args) > len(self._is_static):  # the function says so
            raise Unnamed
        settings = tuple(getattr(jax.config, f"jax_{name}") for name in SETTINGS)
        by_position = tuple(x for x, static in zip(args, self._is_static, strict=False) if static)
        by_name = tuple((name, x) for name, x in sorted(kwargs.items()) if name in self._static_names)
        others = [x for x, static in zip(args, self._is_static, strict=False) if not static]
        leaves, tree = jax.tree.flatten((others, {k: x for k, x in kwargs.items() if k not in self._static_names}))
        each = tuple(map(_kind_of, leaves))
        kind = Kind(settings, (by_position, by_name), len(args), tree, each, _device_of(leaves))
        try:
            hash(kind)
        except TypeError:
            raise Unnamed from None
        return kind, leaves

    def _made(self, kind: Kind) -> Callable[..., Any]:
        """Return a program, from the disk or traced."""
        function = self._of_leaves(kind)
        plain = self._jit(function)
        try:
            key = self._key(kind)
            exported, out_tree = _read(key) or _written(key, jax.jit(function), kind)
        except Unnamed:
            raise
        except Exception:  # the function's own is raised again as it runs; jax.export's and the disk's do not matter
            return plain

        def called(*leaves: Any) -> Any:
            return jax.tree.unflatten(out_tree, exported.call(*leaves))

        called.__name__ = self._function.__name__
        # JAX binds results of exported programs to their device in any case; with the device named, arrays that are
        # bound to it and those that are bound to none take the same program
        own = SingleDeviceSharding(kind.device)
        return self._jit(called, in_shardings=own, out_shardings=own)

    def _key(self, kind: Kind) -> str:
        """Return a name of a program that tells it from all others, in every process."""
        leaves = [(shape, str(dtype), weak) for shape, dtype, weak in kind.leaves]
        own = _own_name(self._function), sorted(self._static_names), kind.settings, spelled(kind.static)
        words = repr((own, kind.n_positional, _spelled_tree(kind.tree), leaves, _surroundings(), _sources()))
        return hashlib.sha256(words.encode()).hexdigest()

    def _of_leaves(self, kind: Kind) -> Callable[..., Any]:
        """Return the function of the arguments' leaves, for one kind of arguments."""
        function, is_static = self._function, self._is_static

        def of_leaves(*leaves: Any) -> Any:
            others, kwargs = jax.tree.unflatten(kind.tree, leaves)
            by_position, by_name = kind.static
            statics, rest = iter(by_position), iter(others)
            args = [next(statics if static else rest) for static in is_static[: kind.n_positional]]
            with no_collection:
                return function(*args, **kwargs, **dict(by_name))

        of_leaves.__name__ = function.__name__
        return of_leaves


def _written(key: str, function: Callable[..., Any], kind: Kind) -> tuple[export.Exported, Any]:
    """Trace a function of leaves, keep the program on disk, and return it with the structure of its results."""
    out_tree: Any = None

    def flat(*leaves: Any) -> list[Any]:
        nonlocal out_tree
        found, out_tree = jax.tree.flatten(function(*leaves))
        return found

    given = [jax.ShapeDtypeStruct(shape, dtype, weak_type=weak) for shape, dtype, weak in kind.leaves]
    exported = export.export(jax.jit(flat))(*given)
    if any(x.weak_type for x in exported.out_avals):
        raise TypeError("a file does not tell that types of results are weak")
    content = pickle.dumps((bytes(exported.serialize()), out_tree))
    TRACED.write(key, hashlib.sha256(content).digest() + content)
    return _loaded(content)


def _read(key: str) -> tuple[export.Exported, Any] | None:
    """Return a program and the structure of its results from the disk; None if they are not there, or damaged."""
    content = TRACED.read(key)
    if content is None or hashlib.sha256(content[DIGEST:]).digest() != content[:DIGEST]:
        return None
    return _loaded(content[DIGEST:])


def _loaded(content: bytes) -> tuple[export.Exported, Any]:
    program, out_tree = pickle.loads(content)
    return export.deserialize(bytearray(program)), out_tree


def _kind_of(leaf: Any) -> tuple[tuple[int, ...], Any, bool]:
    """Return what programs depend on of an array or number: shape, dtype, and whether its dtype is weak."""
    if is_traced(leaf):
        raise Unnamed
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return leaf.shape, leaf.dtype, leaf.weak_type
    try:
        found: Any = jax.typeof(leaf)
    except TypeError:
        raise Unnamed from None
    if jnp.issubdtype(found.dtype, jax.dtypes.extended):  # keys of random numbers
        raise Unnamed
    return found.shape, found.dtype, found.weak_type


def _device_of(leaves: Sequence[Any]) -> Any:
    """Return the device that arrays are bound to, or the first one if they are bound to none."""
    bound = set()
    for leaf in leaves:
        sharding = getattr(leaf, "sharding", None)
        if sharding is None or not getattr(leaf, "committed", True):
            continue
        if not isinstance(sharding, SingleDeviceSharding):
            raise Unnamed
        (device,) = sharding.device_set
        if sharding.memory_kind not in (None, device.default_memory().kind):
            raise Unnamed
        bound.add(device)
    device = bound.pop() if bound else jax.local_devices()[0]
    if bound or device.platform != jax.default_backend():
        raise Unnamed
    return device


def spelled(x: Any) -> str:
    """Return a text that says the same of a static value in every process.

    Raises
    ------
    Unnamed
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
    if isinstance(x, (type, FunctionType)):
        return _own_name(x)
    own = _own_name(type(x))
    if isinstance(x, Enum):
        return f"{own}.{x.name}"
    if isinstance(x, tuple):  # a named one
        return f"{own}({', '.join(map(spelled, x))})"
    if is_dataclass(x):
        return f"{own}({', '.join(f'{f.name}={spelled(getattr(x, f.name))}' for f in fields(x))})"
    raise Unnamed


def _own_name(x: Any) -> str:
    """Return the full name of a class or function of jfstat's modules, under which it must be found: wrappers of a
    function, and methods of an object, have its name too."""
    name, module = x.__qualname__, x.__module__ or ""
    if module.partition(".")[0] != __name__.partition(".")[0]:
        raise Unnamed
    found = reduce(lambda owner, part: getattr(owner, part, None), name.split("."), sys.modules.get(module))
    decorated = getattr(found, "__wrapped__", None)
    if x is not found and x is not decorated:
        raise Unnamed
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
    """Return what programs depend on beside functions and sources: versions, and the kind of machine."""
    return *map(_version, PACKAGES), export.default_export_platform(), *processor_kind()


def _sources() -> str:
    """Return a digest of the package's sources.

    Raises
    ------
    OSError
        If they cannot be read, there are none, or one was changed since this process imported them.
    """
    paths = sorted(path for path in Path(__file__).parent.rglob("*.py") if path.is_file())
    if not paths or any(max(own.st_mtime_ns, own.st_ctime_ns) >= _IMPORTED for own in map(Path.stat, paths)):
        raise OSError("the package's sources are not what this process runs")
    return _digest(tuple(paths))


@cache
def _digest(paths: tuple[Path, ...]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(f"{path.relative_to(Path(__file__).parent)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return ""

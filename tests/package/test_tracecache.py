"""Traced programs on disk: found by later processes, and by nothing that would be traced differently."""

import gc
import os
import subprocess
import sys
from enum import Enum
from functools import partial, wraps
from types import ModuleType

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat
from jfstat import tracecache
from jfstat.compileroptions import jit_with
from jfstat.diskcache import DiskCache, jax_cache
from jfstat.followup.coverage import Coverage, Shared
from jfstat.signal.phasemodel import PhaseModel
from jfstat.signal.templates import Amplitude, Doppler, Orbit
from jfstat.tracecache import Unnamed, spelled

AMPLITUDE = Amplitude(1.0, 0.5, 0.2, 0.1)
START = 1167458304


TRACED = DiskCache("jfstat-traced", ".traced", 1 << 20)
MODULE = "jfstat.made_by_a_test"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for traced programs."""
    before, _ = jax_cache()
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    monkeypatch.setattr(tracecache, "TRACED", TRACED)
    monkeypatch.setitem(sys.modules, MODULE, ModuleType(MODULE))
    yield tmp_path / TRACED.name
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.fixture
def traced():
    """What was traced, by the types of its arguments."""
    return []


def as_of_jfstat(function, **settings):
    """A function of a module of jfstat, as a new process has it."""
    function.__module__, function.__qualname__ = MODULE, function.__name__
    found = jit_with({}, kept=True, **settings)(function)
    setattr(sys.modules[MODULE], function.__name__, found)
    return found


def counting(traced, **settings):
    """A new function each time, under one name."""

    def scaled(amplitude, by, power=1):
        traced.append((str(jax.typeof(amplitude.h0)), str(jax.typeof(by)), power))
        h0 = amplitude.h0 * jnp.asarray(by, amplitude.h0.dtype) ** power
        return Amplitude(h0, amplitude.cosi, amplitude.psi, amplitude.phi0), jnp.sum(h0)

    return as_of_jfstat(scaled, **settings)


def test_no_garbage_is_collected_while_a_kept_program_is_traced(folder):
    seen = []

    def doubled(x):
        seen.append(gc.isenabled())
        return 2 * x

    function = as_of_jfstat(doubled)
    assert gc.isenabled()
    assert float(function(np.array(3.0))) == 6.0
    assert seen and not any(seen)
    assert gc.isenabled()
    assert len(files(folder)) == 1  # it was kept


def files(folder):
    return sorted(folder.glob("*.traced"))


def test_a_new_process_traces_nothing(folder, traced):
    for _ in range(2):
        scaled = counting(traced, static_argnames="power")
        for _ in range(2):
            found, total = scaled(Amplitude(np.arange(3.0), 0.5, 0.2, 0.1), 2.0, power=3)
            assert isinstance(found, Amplitude)
            np.testing.assert_array_equal(found.h0, 8 * np.arange(3.0))
            np.testing.assert_array_equal(found.cosi, 0.5)
            assert float(total) == 24
    assert traced == [("float64[3]", "~float64[]", 3)]
    assert len(files(folder)) == 1


def test_each_kind_of_arguments_has_a_program(folder, traced):
    scaled = counting(traced, static_argnames="power")
    calls = [(AMPLITUDE, 2.0), (AMPLITUDE, 2), (AMPLITUDE, np.float32(2)), (AMPLITUDE, 2.0, 2)]
    calls += [(Amplitude(np.ones((2, 1)), 0.5, 0.2, 0.1), 2.0)]
    for arguments in calls:
        found, _ = scaled(*arguments)
        np.testing.assert_allclose(np.asarray(found.h0), 4 if len(arguments) == 3 else 2)
    assert scaled(AMPLITUDE, by=3.0)[1] == 3
    assert len(traced) == len(files(folder)) == len(calls) + 1
    with jax.numpy_rank_promotion("raise"):
        scaled(AMPLITUDE, 2.0)
    assert len(files(folder)) == len(calls) + 2


def test_what_is_lowered_is_what_runs(folder, traced):
    """With placeholders, before the arrays are there, as searches compile their programs."""
    programs = []

    def listener(event: str, duration_secs: float, **kwargs: str | int) -> None:
        if "backend_compile" in event:
            programs.append(str(kwargs.get("fun_name")))

    jax.monitoring.register_event_duration_secs_listener(listener)
    try:
        scaled = counting(traced)
        of_shape = partial(jax.ShapeDtypeStruct, dtype=np.float64)
        lowered = scaled.lower(jax.tree.map(lambda _: of_shape((4,)), AMPLITUDE), of_shape(()))
        assert lowered.out_info[0].h0.shape == (4,)
        lowered.compile()
        given = jax.tree.map(lambda x: np.full(4, x), AMPLITUDE)
        first = scaled(given, np.float64(2))
        bound = jax.device_put(given, jax.devices()[0])
        for amplitude in (bound, first[0], jax.tree.map(jnp.asarray, given)):
            scaled(amplitude, np.float64(2))
    finally:
        jax.monitoring.unregister_event_duration_listener(listener)
    assert [name for name in programs if "scaled" in name] == ["jit(scaled)"]
    assert len(traced) == 1


def test_transformations_see_the_function_itself(folder, traced):
    scaled = counting(traced)
    heights = jnp.arange(1.0, 4.0)
    slopes = jax.vmap(jax.grad(lambda h0: scaled(Amplitude(h0, 0.5, 0.2, 0.1), 2.0)[1]))(heights)
    np.testing.assert_array_equal(slopes, 2)
    assert not files(folder)
    assert len(traced) == 1


def test_known_values_within_a_trace_are_part_of_it(folder, traced):
    scaled = counting(traced)
    assert jax.jit(lambda x: x + scaled(AMPLITUDE, 2.0)[1])(1.0) == 3
    np.testing.assert_array_equal(jax.vmap(lambda x: x + scaled(AMPLITUDE, 2.0)[1])(np.arange(2.0)), [2, 3])
    assert not files(folder)


def test_errors_of_the_function_are_its_own(folder, traced):
    with pytest.raises(AttributeError, match="h0"):
        counting(traced)(1.0, 2.0)
    with pytest.raises(TypeError, match="missing"):
        counting(traced)(AMPLITUDE)
    assert not files(folder)


@pytest.mark.parametrize("damage", [lambda x: b"", lambda x: x[:-9], lambda x: x[:200] + b"?" + x[201:]])
def test_damaged_files_are_traced_again(folder, traced, damage):
    for _ in range(2):
        assert counting(traced)(AMPLITUDE, 2.0)[1] == 2
        (path,) = files(folder)
        path.write_bytes(damage(path.read_bytes()))
    for _ in range(2):
        assert counting(traced)(AMPLITUDE, 2.0)[1] == 2
    assert len(traced) == 3


def test_nothing_is_kept_unless_jax_keeps_something(folder, traced):
    with jax.debug_nans(True):
        counting(traced)(AMPLITUDE, 2.0)
    jax.config.update("jax_compilation_cache_dir", "gs://bucket/programs")
    assert TRACED.folder() is None
    jax.config.update("jax_compilation_cache_dir", None)
    counting(traced)(AMPLITUDE, 2.0)
    assert len(traced) == 2
    assert not folder.exists()


def test_a_folder_that_cannot_be_written_costs_time_only(folder, traced):
    folder.write_text("a file, not a folder")
    for _ in range(2):
        assert counting(traced)(AMPLITUDE, 2.0)[1] == 2
    assert len(traced) == 2


def test_what_was_not_used_for_longest_is_removed(folder):
    cache = DiskCache(TRACED.name, ".x", 1000)
    for i in range(9):
        cache.write(f"{i}", bytes(100))
        os.utime(folder / f"{i}.x", (i, i))
    assert cache.read("0") == bytes(100)  # now the youngest
    (folder / "of another kind").write_bytes(bytes(5000))
    for name in ("9", "10"):
        cache.write(name, bytes(100))
    assert {path.stem for path in folder.glob("*.x")} == {"8", "0", "9", "10"} | {"7"}
    assert (folder / "of another kind").exists()
    assert cache.read("1") is None


class Colour(Enum):
    RED = 1


@wraps(jfstat.twoF)
def in_its_name(data, point):
    return 0.0


WINDOW = jfstat.TransientWindow("rectangular", 1e9, 3600.0)


@pytest.mark.parametrize(
    "unnamed",
    [
        lambda x: x,
        Colour.RED,
        test_errors_of_the_function_are_its_own,
        PhaseModel(lambda params, tau: tau, {"a": 1.0}),
        in_its_name,
        jax.jit(jfstat.twoF),
        jax.vmap(jfstat.twoF),
        jax.grad(jfstat.twoF),
        WINDOW.value,
        (1).__add__,
        object(),
        np.array([object()]),
        partial(spelled, 1),
    ],
)
def test_what_may_change_between_processes_has_no_name(unnamed):
    with pytest.raises(Unnamed):
        spelled(("a", [unnamed]))


def test_a_model_in_the_name_of_one_of_jfstats_functions_is_not_taken_for_it(folder, traced):
    """Wrappers of a function have its name, and may be anything."""

    def at(model):
        def drift(point):
            traced.append(1)
            return jnp.asarray(point.model.function(1.0, point.model.parameters))

        return as_of_jfstat(drift)(jfstat.Doppler(1.0, 0.1, [50.0], START, model=model))

    for change in (0.0, 3.0):
        model = PhaseModel(wraps(jfstat.twoF)(lambda tau, params, change=change: change + 0.0 * tau), {"a": 1.0})
        assert at(model) == change
    assert len(traced) == 2 and not files(folder)


def test_sources_that_change_are_not_taken_for_those_that_run(folder, traced, monkeypatch):
    monkeypatch.setattr(tracecache, "_IMPORTED", 1)  # before all sources
    for _ in range(2):
        scaled = counting(traced)
        assert scaled(AMPLITUDE, 2.0)[1] == scaled(AMPLITUDE, 2.0)[1] == 2
    assert len(traced) == 2 and not files(folder)


def test_what_cannot_be_kept_is_traced_once(folder, traced):
    """A result whose type is weak, which a file does not tell."""

    def weak(x):
        traced.append(x)
        return x * 2

    function = as_of_jfstat(weak)
    assert [function(1.0), function(2.0)] == [2, 4]
    assert function(1.0).weak_type
    assert len(traced) == 1 and not files(folder)


def test_few_programs_are_remembered(folder, traced, monkeypatch):
    monkeypatch.setattr(tracecache, "MOST_PROGRAMS", 3)
    scaled = counting(traced)
    for n in (1, 2, 3, 4, 1):
        assert scaled(Amplitude(np.ones(n), 0.5, 0.2, 0.1), 2.0)[1] == 2 * n
    assert len(scaled._traced._programs) == 3
    assert len(traced) == 4  # the first is on disk


def test_more_arguments_than_there_are_is_an_error(folder, traced):
    with pytest.raises(TypeError, match="argument"):
        counting(traced)(AMPLITUDE, 2.0, 1, 99)


def test_other_settings_of_jit_are_refused():
    with pytest.raises(TypeError, match="cannot have donate_argnums"):
        jit_with({}, kept=True, donate_argnums=0)


def test_names_of_static_values_tell_them_apart():
    values = [None, 1, True, 1.0, "1", b"1", (1,), [1], ((1,),), {1: 2}, {2: 1}, {1}, np.float32(1), np.float64(1)]
    values += [np.arange(2), np.arange(2.0), np.arange(2).reshape(2, 1), np.dtype("f4"), np.dtype("f8")]
    values += [Doppler, Orbit, spelled, Coverage(Shared(1.0, 2.0), 2.0, True), Coverage(Shared(1.0, 2.0), 2.0, False)]
    assert len({spelled(x) for x in values}) == len(values)
    assert spelled({"b": 1, "a": {3, 1, 2}}) == spelled({"a": {1, 2, 3}, "b": 1})


def said(program, cache, folder, **environment):
    """What a program prints in a process of its own, with programs kept in a folder, or in none."""
    done = subprocess.run(
        [sys.executable, "-c", program, str(cache)],
        capture_output=True,
        text=True,
        cwd=folder,
        env={name: x for name, x in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"} | environment,
    )
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.mark.ci
def test_refining_in_a_second_process_traces_nothing_and_finds_the_same(tmp_path):
    program = """
import sys, jax, numpy as np
jax.config.update("jax_enable_x64", True)
import jfstat
if sys.argv[1] != "none":
    jfstat.use_compile_cache(sys.argv[1])
start = 1167458304
point = jfstat.Doppler(1.5, 0.2, [50.0123, -1e-9], reftime=start)
signals = [(point, jfstat.Amplitude(1e-24, 0.3, 0.2, 1.0))]
sfts = jfstat.simulate_sfts(["H1", "L1"], start, 86400, 49.5, 50.5, sqrt_sx=4e-24, signals=signals, seed=1)
data = jfstat.prepare(sfts, 50.0, 50.02, start)
found = jfstat.search(data, jfstat.Doppler(1.501, 0.201, [50, -1e-9], start), top=3, progress=False)
refined = jfstat.refine(data, found[:1], progress=False)
for table in (found, refined):
    for name in table.colnames:
        if table[name].dtype.kind == "f":
            print(name, *(float(x).hex() for x in np.ravel(np.asarray(table[name]))))
"""

    def numbers(cache):
        return said(program, cache, tmp_path)

    def kept():
        return {path.name for path in tmp_path.rglob("*.traced")}

    first = numbers(tmp_path / "cache")
    names = kept()
    assert len(names) > 8
    assert numbers(tmp_path / "cache") == first
    assert kept() == names
    plain = numbers("none")
    if plain != first:  # XLA may fuse in another order what is traced in one
        for own, other in zip(first.splitlines(), plain.splitlines(), strict=True):
            given = [np.array([float.fromhex(x) for x in line.split()[1:]]) for line in (own, other)]
            np.testing.assert_allclose(*given, rtol=1e-6, err_msg=own.split()[0])


@pytest.mark.slow
def test_several_devices_find_the_same_with_and_without(tmp_path):
    """Results that users get are bound to no device that they did not choose."""
    program = """
import sys, jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec
jax.config.update("jax_enable_x64", True)
import jfstat
if sys.argv[1] != "none":
    jfstat.use_compile_cache(sys.argv[1])
start = 1167458304
sfts = jfstat.simulate_sfts(["H1", "L1"], start, 43200, 49.5, 50.5, sqrt_sx=4e-24, seed=1)
data = jfstat.prepare(sfts, 50.0, 50.01, start)
print("bound", [x.committed for x in jax.tree.leaves(data) if isinstance(x, jax.Array)])
mesh = jax.make_mesh((2,), ("templates",), axis_types=(jax.sharding.AxisType.Auto,))
point = jfstat.Doppler(1.5, 0.2, [50.0, 0.0], start)
alpha = jax.device_put(np.linspace(1, 2, 8), NamedSharding(mesh, PartitionSpec("templates")))
one = lambda data, x: jnp.max(jfstat.twoF_band(data, jfstat.Doppler(x, 0.2, [50.0, 0.0], start)))
print(*(float(x).hex() for x in jax.jit(jax.vmap(one, (None, 0)))(data, alpha)))
series = jfstat.resample(data, point)
print("series", [x.committed for x in jax.tree.leaves(series) if isinstance(x, jax.Array)])
bank = jfstat.Doppler(np.linspace(1, 2, 8), np.full(8, 0.2), np.tile([50.0, 0.0], (8, 1)), start)
for given, run in ((data, jfstat.Run(mesh=mesh)), (jax.device_put(data, jax.devices()[1]), None), (data, None)):
    found = jfstat.search(given, bank, top=3, run=run, progress=False)
    print(*(float(x).hex() for x in found["twoF"]), *(float(x).hex() for x in found["h0"]))
"""
    flags = {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=2"}
    plain, first, again = (said(program, x, tmp_path, **flags) for x in ("none", *(tmp_path / "cache",) * 2))
    assert plain == first == again
    assert list(tmp_path.rglob("*.traced"))

"""Traced programs on disk: found by later processes, and by nothing that would be traced differently."""

import os
import subprocess
import sys
from enum import Enum
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jfstat import tracecache
from jfstat.compileroptions import jit_with
from jfstat.diskcache import DiskCache, jax_cache
from jfstat.followup.refine import Coverage
from jfstat.signal.phasemodel import PhaseModel
from jfstat.signal.templates import Amplitude, Doppler, Orbit
from jfstat.tracecache import Unkept, spelled

AMPLITUDE = Amplitude(1.0, 0.5, 0.2, 0.1)


KEPT = DiskCache("jfstat-traced", ".traced", 1 << 20)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder for traced programs."""
    before, _ = jax_cache()
    jax.config.update("jax_compilation_cache_dir", str(tmp_path))
    monkeypatch.setattr(tracecache, "KEPT", KEPT)
    yield tmp_path / KEPT.name
    jax.config.update("jax_compilation_cache_dir", before)


@pytest.fixture
def traced():
    """What was traced, by the types of its arguments."""
    return []


def counting(traced, **settings):
    """A new function each time, under one name: as a new process has it."""

    @jit_with({}, **settings)
    def scaled(amplitude, by, power=1):
        traced.append((str(jax.typeof(amplitude.h0)), str(jax.typeof(by)), power))
        h0 = amplitude.h0 * jnp.asarray(by, amplitude.h0.dtype) ** power
        return Amplitude(h0, amplitude.cosi, amplitude.psi, amplitude.phi0), jnp.sum(h0)

    return scaled


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
    assert KEPT.folder() is None
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
    cache = DiskCache(KEPT.name, ".x", 1000)
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


@pytest.mark.parametrize(
    "unkept",
    [
        lambda x: x,
        Colour.RED,
        test_errors_of_the_function_are_its_own,
        PhaseModel(lambda params, tau: tau, {"a": 1.0}),
        object(),
        np.array([object()]),
        partial(spelled, 1),
    ],
)
def test_what_may_change_between_processes_has_no_name(unkept):
    with pytest.raises(Unkept):
        spelled(("a", [unkept]))


def test_names_of_static_values_tell_them_apart():
    values = [None, 1, True, 1.0, "1", b"1", (1,), [1], ((1,),), {1: 2}, {2: 1}, {1}, np.float32(1), np.float64(1)]
    values += [np.arange(2), np.arange(2.0), np.arange(2).reshape(2, 1), np.dtype("f4"), np.dtype("f8")]
    values += [Doppler, Orbit, spelled, Coverage(1.0, 2.0, True), Coverage(1.0, 2.0, False)]
    assert len({spelled(x) for x in values}) == len(values)
    assert spelled({"b": 1, "a": {3, 1, 2}}) == spelled({"a": {1, 2, 3}, "b": 1})


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
        done = subprocess.run([sys.executable, "-c", program, str(cache)], capture_output=True, text=True, cwd=tmp_path)
        assert not done.returncode, done.stderr
        return done.stdout

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

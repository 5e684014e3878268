"""Data and banks that are saved and loaded: the same bits, elsewhere too; damaged files are told in a sentence."""

import dataclasses
import io
import json
import os
import subprocess
import sys
import zipfile
import zlib

import jax
import numpy as np
import pytest
from wrong_kinds import wrong_values

import jfstat
from jfstat.io import saved
from jfstat.signal.values import with_fields

START = 1_167_458_304
POINT = jfstat.Doppler(2.1, 0.47, [100.005, -1e-10], START + 100)


@pytest.fixture(scope="module")
def objects():
    own = jfstat.Detector.from_geodetic("Z1", 0.16, 0.7, 400.0, [1.23, 2.28])
    made = dict(fmin=99.6, fmax=100.4, sqrt_sx=4e-24, seed=1)
    sfts = jfstat.simulate_sfts(["H1", own], START, 8 * 1800, **made)
    data = jfstat.prepare(sfts, 100.0, 100.01, f"{START}.123456789", guard=0.3)
    segments = jfstat.prepare(sfts, 100.0, 100.01, guard=0.3, segments=2)
    rng = np.random.default_rng(0)
    orbit = jfstat.Orbit(rng.uniform(1, 2, 7), 5e4, START, 0.1)
    bank = jfstat.Doppler(
        rng.uniform(0, 6, 7), 0.1, rng.normal(size=(7, 3)), f"{START}.000000001", orbit, motion=[1e-15, 2e-15]
    )
    return {
        "data": data,
        "without filters": dataclasses.replace(data, filters=()),
        "segments": segments,
        "observation": data.observation,
        "unknown noise": jfstat.observation([own], START, 8 * 1800),
        "narrow": jfstat.narrow(data, POINT),
        "narrow segments": jfstat.narrow(segments, POINT),
        "template": POINT,
        "bank": with_fields(bank, varied=("alpha", "asini"), asked={"alpha": (0.1, 0.2), "asini": (1.0, 2.0)}),
        "no reference time": jfstat.Doppler([1.0, 2.0], 0.2, [[1.0]]),
        "empty": bank[:0],
        "orbit": orbit,
        "amplitude": jfstat.Amplitude(1e-24, 0.3),
    }


def same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def test_what_is_loaded_has_the_same_bits(objects, tmp_path):
    for name, x in objects.items():
        path = jfstat.save(x, tmp_path / "x")
        again = jfstat.load(path)
        assert type(again) is type(x), name
        same(again, x)
        assert all(isinstance(leaf, jax.Array) and not leaf.weak_type for leaf in jax.tree.leaves(again))
        for field in ("varied", "asked"):
            assert getattr(again, field, None) == getattr(x, field, None)
        assert os.listdir(tmp_path) == ["x"]  # and nothing beside
        jfstat.save(again, tmp_path / "y")
        assert (tmp_path / "y").read_bytes() == path.read_bytes()
        (tmp_path / "y").unlink()


ELSEWHERE = """
import sys
import jax
jax.config.update("jax_enable_x64", True)
import jfstat
names = ("data", "segments", "near", "point")
data, segments, near, point = (jfstat.load(f"{sys.argv[1]}/{name}.npz") for name in names)
values = [jfstat.twoF(data, point), jfstat.mean_twoF(segments, point), jfstat.twoF(near, point)]
print(*[float(x).hex() for x in [*values, *jfstat.twoF_band(data, point)[:5]]], *data.detectors, data.reftime)
"""


@pytest.mark.ci
def test_another_process_computes_the_same(objects, tmp_path):
    data, segments, near = (objects[name] for name in ("data", "segments", "narrow"))
    for name, x in dict(data=data, segments=segments, near=near, point=POINT).items():
        jfstat.save(x, tmp_path / f"{name}.npz")
    values = [jfstat.twoF(data, POINT), jfstat.mean_twoF(segments, POINT), jfstat.twoF(near, POINT)]
    here = [float(x).hex() for x in [*values, *jfstat.twoF_band(data, POINT)[:5]]]
    done = subprocess.run([sys.executable, "-c", ELSEWHERE, tmp_path], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*here, "H1", "Z1", str(data.reftime)]


def test_numpy_reads_the_arrays(objects, tmp_path):
    path = jfstat.save(objects["bank"], tmp_path / "bank.npz")
    with np.load(path) as file:
        np.testing.assert_array_equal(file["orbit.asini"], objects["bank"].orbit.asini)
    header = json.loads(zipfile.ZipFile(path).read("header.json"))
    assert header["version"] == saved.FORMAT and header["jfstat"] == jfstat.__version__


def ramp(t, p):
    return p * t


def refused():
    model = jfstat.Doppler(1.0, 0.2, [99.0], model=jfstat.PhaseModel(ramp, 0.5))
    gone = jfstat.Amplitude(1e-24, 0.3)
    gone.h0.delete()
    return {
        "model": (lambda path: jfstat.save(model, path), ValueError, "data has the phase model 'ramp'"),
        "table": (lambda path: jfstat.save({"a": 1}, path), TypeError, "data must be one of FstatData"),
        "part": (lambda path: jfstat.save(POINT.reftime, path), TypeError, "data must be one of FstatData"),
        "traced": (lambda path: jax.jit(lambda x: jfstat.save(x, path))(POINT), ValueError, "data are traced"),
        "shapes": (lambda path: jfstat.save(jax.eval_shape(lambda: POINT), path), TypeError, "data hold ShapeDtype"),
        "objects": (lambda path: jfstat.save(jax.tree.map(lambda x: "x", POINT), path), TypeError, "data hold 'x'"),
        "deleted": (lambda path: jfstat.save(gone, path), ValueError, "data hold no h0 any more"),
    }


@pytest.mark.parametrize("which", refused())
def test_what_cannot_be_saved(which, tmp_path):
    call, kind, message = refused()[which]
    with pytest.raises(kind, match=f"^{message}") as error:
        call(tmp_path / "x.npz")
    assert "\n" not in str(error.value) and not os.listdir(tmp_path)


SEVERAL = """
import jax
jax.config.update("jax_enable_x64", True)
import jfstat
from jax.sharding import Mesh, NamedSharding, PartitionSpec
bank = jfstat.Doppler([1.0, 2.0], 0.2, [[1.0]])
spread = jax.device_put(bank, NamedSharding(Mesh(jax.devices(), "x"), PartitionSpec("x")))
try:
    jfstat.save(spread, "x.npz")
except ValueError as error:
    print(error)
other = jax.device_put(bank, jax.devices()[1])
print(jfstat.load(jfstat.save(other, "x.npz")).alpha.devices() == {jax.devices()[0]}, other[1].alpha.devices())
"""


def test_data_on_several_devices(tmp_path):
    env = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "JAX_PLATFORMS": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL], capture_output=True, text=True, check=True, env=env, cwd=tmp_path
    )
    first, second = done.stdout.splitlines()
    assert first.startswith("data are distributed over several devices: ") and second.startswith(
        "True {CpuDevice(id=1)"
    )


def test_files_that_cannot_be_written_or_read(tmp_path):
    with pytest.raises(OSError, match=r"cannot be written"):
        jfstat.save(POINT, tmp_path / "no" / "x.npz")
    with pytest.raises(OSError, match=r"cannot be written"):
        jfstat.save(POINT, tmp_path)
    with pytest.raises(FileNotFoundError, match=r"cannot be read"):
        jfstat.load(tmp_path / "x.npz")
    with pytest.raises(OSError, match=r"cannot be read"):
        jfstat.load(tmp_path)
    for value in wrong_values(tmp_path).values():
        with pytest.raises((TypeError, ValueError)) as error:
            jfstat.save(value, tmp_path / "x.npz")
        assert "data" in str(error.value) and "\n" not in str(error.value)


def rewritten(path, change):
    """A file whose header, and any of whose other members, is changed, with right checksums."""
    content = {name: zipfile.ZipFile(path).read(name) for name in zipfile.ZipFile(path).namelist()}
    header = json.loads(content["header.json"])
    change(header, content)
    content["header.json"] = json.dumps(header).encode()
    with zipfile.ZipFile(path, "w") as file:
        for name, own in content.items():
            file.writestr(name, own)


FOREIGN = {
    "another format": lambda h, c: h.update(format="x"),
    "no version": lambda h, c: h.pop("version"),
    "version 0": lambda h, c: h.update(version=0),
    "no tree": lambda h, c: h.pop("tree"),
    "a class of Python": lambda h, c: h["tree"].update({"class": "Popen"}),
    "a part": lambda h, c: h.update(tree=h["tree"]["fields"]["reftime"]),
    "fields missing": lambda h, c: h["tree"]["fields"].pop("delta"),
    "fields too many": lambda h, c: h["tree"]["fields"].update(x=None),
    "an array missing": lambda h, c: c.pop("alpha.npy"),
    "an array unlisted": lambda h, c: h["arrays"].pop("alpha"),
    "a huge array": lambda h, c: h["arrays"].update(alpha=["<f8", [10**30]]),
    "a negative array": lambda h, c: h["arrays"].update(alpha=["<f8", [-1]]),
    "objects": lambda h, c: h["arrays"].update(alpha=["|O", []]),
    "another type": lambda h, c: h["arrays"].update(alpha=["<f4", []]),
    "another shape": lambda h, c: h["arrays"].update(alpha=["<f8", [1]]),
    "a longer array": lambda h, c: c.update({"alpha.npy": c["alpha.npy"] + b"x"}),
    "a shorter array": lambda h, c: c.update({"alpha.npy": c["alpha.npy"][:-1]}),
    "no array": lambda h, c: c.update({"alpha.npy": b"x"}),
    "a list": lambda h, c: h.update(tree=[1]),
}


@pytest.mark.parametrize("which", FOREIGN)
def test_files_of_other_content(which, tmp_path):
    path = jfstat.save(POINT, tmp_path / "x.npz")
    rewritten(path, lambda h, c: None)
    same(jfstat.load(path), POINT)
    rewritten(path, FOREIGN[which])
    with pytest.raises(ValueError, match=r"^path '.*' is no whole file of jfstat.save: ") as error:
        jfstat.load(path)
    assert "\n" not in str(error.value)


def test_other_files(tmp_path):
    path = tmp_path / "x.npz"
    buffer = io.BytesIO()
    np.savez(buffer, a=np.arange(3))
    for content in (b"", b"x", buffer.getvalue(), b"PK\x05\x06" + bytes(18), b"\x89HDF\r\n\x1a\n" + bytes(100)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"no whole file of jfstat.save"):
            jfstat.load(path)
    jfstat.save(POINT, path)
    rewritten(path, lambda h, c: h.update(version=saved.FORMAT + 1, jfstat="99.1", tree={"unknown": []}))
    with pytest.raises(ValueError, match=r"is of jfstat '99.1', in a newer format than this version can read: update"):
        jfstat.load(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("header.json", "[" * 100_000)
    with pytest.raises(ValueError, match=r"no whole file of jfstat.save"):
        jfstat.load(path)


def test_damaged_files_are_told_in_a_sentence(objects, tmp_path):
    """Bytes are changed, cut off, left out and put in anywhere: an error in a sentence, or what was saved."""
    rng = np.random.default_rng(0)
    path, refused = tmp_path / "x.npz", 0
    for name in ("bank", "observation"):
        whole = jfstat.save(objects[name], path).read_bytes()
        for trial in range(300):
            content, place = bytearray(whole), int(rng.integers(len(whole)))
            if trial % 3 == 0:
                content[place] ^= 1 << int(rng.integers(8))
            elif trial % 3 == 1:
                del content[place:]
            else:
                length = int(rng.integers(1, 40))
                content[place : place + length * (trial % 2)] = rng.bytes(length)
            path.write_bytes(content)
            try:
                again = jfstat.load(path)
            except ValueError as error:
                assert str(error).startswith(f"path {str(path)!r} is no whole file") and "\n" not in str(error)
                refused += 1
            else:
                same(again, objects[name])  # what was changed says nothing, such as a date
    assert refused > 500


FIELDS = 365920095
"""Checksum of the names of all fields in format 3."""


def test_the_format_is_that_of_the_classes():
    """If this fails because a class changed, raise FORMAT, read the older format too if possible, and correct this."""
    kinds = saved.WHOLE | saved.PARTS
    names = {name: [field.name for field in dataclasses.fields(kind)] for name, kind in sorted(kinds.items())}
    assert (saved.FORMAT, zlib.crc32(json.dumps(names).encode())) == (3, FIELDS), names


@pytest.mark.ci
def test_memory_stays_at_a_copy(tmp_path):
    program = """
import resource, sys
import jax, numpy as np
jax.config.update("jax_enable_x64", True)
import jfstat
bank = jfstat.Doppler(np.zeros(10), 0.1, [[1.0]])
jfstat.load(jfstat.save(bank, sys.argv[1] + "/small"))
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
if sys.argv[2] == "save":
    n = 4_000_000
    bank = jfstat.Doppler(np.linspace(0, 6, n), 0.1, np.ones((n, 4)), 1000000000)
    before = peak()
    jfstat.save(bank, sys.argv[1] + "/bank")
else:
    before = peak()
    bank = jfstat.load(sys.argv[1] + "/bank")
print(peak() - before, sum(x.nbytes for x in jax.tree.leaves(bank)) // 2**20)
"""
    added = {}
    for what in ("save", "load"):
        done = subprocess.run(
            [sys.executable, "-c", program, tmp_path, what], capture_output=True, text=True, check=True
        )
        added[what], size = map(int, done.stdout.split())
    assert size == 244
    assert added["save"] < 0.3 * size and added["load"] < 1.2 * size, added

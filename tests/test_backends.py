"""Backends: which one computes a search, what is refused, and that one that cannot be imported is not missed."""

import subprocess
import sys
from types import SimpleNamespace

import jax
import numpy as np
import pytest

import jfstat
from jfstat.commandline import main
from jfstat.searching.driver.plan import search_plan
from jfstat.searching.session.checkpoint import checkpoint_bytes, read_checkpoint
from jfstat.statistic.backends import choice
from jfstat.statistic.backends.library import Library
from jfstat.statistic.backends.triton.backend import Triton
from jfstat.transforms import PASSES

START = 1167458304
OPTIONS = dict(top=5, progress=False, per_detector=False)
WITHOUT_PALLAS = """
import sys
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.startswith("jax.experimental.pallas"):
            raise ImportError("Pallas is blocked")
sys.meta_path.insert(0, Blocked())
import jax
jax.config.update("jax_enable_x64", True)
import numpy as np
import jfstat
sfts = jfstat.simulate_sfts(["H1"], 1167458304, 7200, 48.5, 51.5, sqrt_sx=4e-24)
data = jfstat.prepare(sfts, 50.0, 50.02)
bank = jfstat.Doppler(np.array([0.1, 0.2]), np.array([0.3, 0.4]), np.array([[50.0, 0.0], [50.0, -1e-9]]), 1167458304)
found = jfstat.search(data, bank, top=5, progress=False)
print(len(found), found.meta["backend"])
try:
    jfstat.search(data, bank, top=5, progress=False, backend="triton")
except ValueError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def data():
    sfts = jfstat.simulate_sfts(["H1"], START, 7200, 48.5, 51.5, sqrt_sx=4e-24, seed=1)
    return jfstat.prepare(sfts, 50.0, 50.02, sqrt_sx=4e-24)


@pytest.fixture
def bank():
    return jfstat.Doppler(np.array([0.1, 0.2]), np.array([0.3, 0.4]), np.array([[50.0, 0.0], [50.0, -1e-9]]), START)


def on(device, data, monkeypatch):
    monkeypatch.setattr(choice, "device_of", lambda data: device)
    return choice.backend_for(data).name


def test_the_fastest_usable_backend_is_taken(data, monkeypatch):
    gpu = SimpleNamespace(platform="gpu", device_kind="NVIDIA H200", compute_capability="9.0")
    older = SimpleNamespace(platform="gpu", device_kind="NVIDIA V100", compute_capability="7.0")
    other = SimpleNamespace(platform="gpu", device_kind="another GPU")
    assert on(jax.devices("cpu")[0], data, monkeypatch) == "library"
    assert on(gpu, data, monkeypatch) == "triton"
    assert on(older, data, monkeypatch) == on(other, data, monkeypatch) == "library"
    monkeypatch.setitem(sys.modules, "jfstat.statistic.backends.triton.backend", None)  # cannot be imported
    choice.backend_named.cache_clear()
    assert on(gpu, data, monkeypatch) == "library"
    choice.backend_named.cache_clear()


def test_backends_are_named_alike_everywhere():
    assert set(choice.NAMES) == set(PASSES)
    assert [choice.backend_named(name).name for name in choice.NAMES] == list(choice.NAMES)
    assert Triton(interpret=True) != Triton() == choice.backend_named("triton")
    assert hash(Library()) == hash(choice.backend_named("library"))


@pytest.mark.parametrize(
    ("name", "message"),
    [("fast", "backend must be None or one of"), (3, "not 3"), ("triton", "it needs an NVIDIA GPU")],
)
def test_unknown_and_unusable_backends_are_refused(data, bank, name, message):
    if name == "triton" and jax.default_backend() != "cpu":
        pytest.skip("the backend may be usable here")
    with pytest.raises(ValueError, match=message):
        jfstat.search(data, bank, **OPTIONS, backend=name)
    with pytest.raises(ValueError, match=message):
        search_plan(data, bank, backend=name)


def test_the_command_names_the_backends(capsys):
    assert main(["search", "--backend=fast"]) == 1
    assert "invalid choice" in capsys.readouterr().err
    assert main(["search", "--help"]) == 0
    assert "--backend {triton,library}" in capsys.readouterr().out


def test_tables_and_checkpoints_name_the_backend(data, bank, tmp_path):
    path = tmp_path / "state"
    first = jfstat.search(data, bank, **OPTIONS, checkpoint=path)
    assert first.meta["backend"] == "library"
    assert read_checkpoint(checkpoint_bytes(path), path, bank)[1].backend == "library"
    again = jfstat.search(data, bank, **OPTIONS, checkpoint=path, backend="library")
    np.testing.assert_array_equal(again["twoF"], first["twoF"])


def test_a_search_goes_on_with_the_backend_it_began_with(data, bank, tmp_path, monkeypatch):
    path = tmp_path / "state"
    jfstat.search(data, bank, **OPTIONS, checkpoint=path)
    monkeypatch.setattr(sys.modules["jfstat.searching.search"], "backend_for", lambda *arguments: Triton())
    with pytest.raises(ValueError, match=r"another search: what differs is backend \(library there, triton here\)"):
        jfstat.search(data, bank, **OPTIONS, checkpoint=path, backend="triton")


@pytest.mark.slow
def test_both_backends_give_the_same_table(data, bank, monkeypatch):
    """With the kernels interpreted."""
    expected = jfstat.search(data, bank, **OPTIONS)
    for module in ("driver.plan.backend_for", "driver.batches.backend_named"):
        monkeypatch.setattr(f"jfstat.searching.{module}", lambda *arguments: Triton(interpret=True))
    found = jfstat.search(data, bank, **OPTIONS)
    assert found.meta["backend"] == "triton"
    np.testing.assert_allclose(found["twoF"], expected["twoF"], rtol=1e-5)
    np.testing.assert_array_equal(found["freq"], expected["freq"])
    theirs, own = (table.meta["loudest_per_subband"] for table in (expected, found))
    assert own["start"] == theirs["start"] and own["stop"] == theirs["stop"]
    np.testing.assert_allclose(own["twoF"], theirs["twoF"], rtol=1e-5)


def test_a_search_works_where_pallas_cannot_be_imported():
    done = subprocess.run([sys.executable, "-c", WITHOUT_PALLAS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    summary, refusal = done.stdout.splitlines()
    assert summary == "5 library"
    assert refusal.startswith("backend 'triton' cannot be imported here (Pallas is blocked)")

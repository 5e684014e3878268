"""Engines: which one computes a search, what is refused, and that one that cannot be imported is not missed."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from searches import division, search

import jfstat
from jfstat.commandline import main
from jfstat.engines import choice
from jfstat.engines.cuda.engine import Cuda
from jfstat.engines.xla import Xla
from jfstat.searching.session.checkpoint import checkpoint_bytes, read_checkpoint
from jfstat.transforms import PASSES

START = 1167458304
OPTIONS = dict(top=5, progress=False, per_detector=False)


@pytest.fixture(scope="module")
def data():
    sfts = jfstat.simulate_sfts(["H1"], START, 7200, 48.5, 52.0, sqrt_sx=4e-24, seed=1)
    return jfstat.prepare(sfts, 50.0, 50.5, sqrt_sx=4e-24)


@pytest.fixture
def bank():
    return jfstat.Doppler(np.array([0.1, 0.2]), np.array([0.3, 0.4]), np.array([[50.0, 0.0], [50.0, -1e-9]]), START)


def on(device, data, monkeypatch):
    monkeypatch.setattr(choice, "device_of", lambda data: device)
    return choice.engine_for(data).name


def test_the_fastest_usable_backend_is_taken(data, monkeypatch):
    gpu = SimpleNamespace(platform="gpu", device_kind="NVIDIA H200", compute_capability="9.0")
    older = SimpleNamespace(platform="gpu", device_kind="NVIDIA V100", compute_capability="7.0")
    other = SimpleNamespace(platform="gpu", device_kind="another GPU")
    assert on(jax.devices("cpu")[0], data, monkeypatch) == "xla"
    monkeypatch.setattr(Cuda, "unavailable", lambda self: None)
    assert on(gpu, data, monkeypatch) == "cuda"
    assert on(older, data, monkeypatch) == on(other, data, monkeypatch) == "xla"


def test_a_backend_that_the_machine_cannot_run_is_replaced_with_a_warning(data, monkeypatch):
    gpu = SimpleNamespace(platform="gpu", device_kind="NVIDIA H200", compute_capability="9.0")
    monkeypatch.setattr(Cuda, "unavailable", lambda self: "the driver is too old")
    with pytest.warns(UserWarning, match=r"'cuda' cannot be used on this machine: the driver is too old; jfstat"):
        assert on(gpu, data, monkeypatch) == "xla"
    with pytest.raises(
        ValueError, match="'cuda' cannot be used on this machine: the driver is too old; use the engine"
    ):
        choice.engine_for(data, "cuda")


def test_sums_over_segments_are_chosen_alike(monkeypatch):
    gpu = SimpleNamespace(platform="gpu", device_kind="NVIDIA H200", compute_capability="9.0")
    older = SimpleNamespace(platform="gpu", device_kind="NVIDIA V100", compute_capability="7.0")
    monkeypatch.setattr(Cuda, "unavailable", lambda self: None)
    assert [choice.sums_for(device).name for device in (gpu, older, jax.devices("cpu")[0])] == [
        "cuda",
        "xla",
        "xla",
    ]
    assert choice.sums_for(gpu, "xla").name == "xla"
    with pytest.raises(ValueError, match="'cuda' cannot sum on NVIDIA V100: it needs an NVIDIA GPU of compute"):
        choice.sums_for(older, "cuda")
    with pytest.raises(ValueError, match="engine must be None or one of"):
        choice.sums_for(gpu, "fast")
    monkeypatch.setattr(Cuda, "unavailable", lambda self: "the driver is too old")
    with pytest.warns(UserWarning, match="'cuda' cannot be used on this machine: the driver is too old; jfstat"):
        assert choice.sums_for(gpu).name == "xla"
    with pytest.raises(ValueError, match="'cuda' cannot be used on this machine: the driver is too old; use"):
        choice.sums_for(gpu, "cuda")


def test_backends_are_named_alike_everywhere():
    assert set(choice.NAMES) == set(PASSES)
    assert [choice.engine_named(name).name for name in choice.NAMES] == list(choice.NAMES)
    assert Cuda(emulate=True) != Cuda() == choice.engine_named("cuda")
    assert hash(Xla()) == hash(choice.engine_named("xla"))


@pytest.mark.parametrize(
    ("name", "message"), [("fast", "engine must be None or one of"), ("cuda", "it needs an NVIDIA GPU")]
)
def test_unknown_and_unusable_backends_are_refused(data, bank, name, message):
    if name == "cuda" and jax.default_backend() != "cpu":
        pytest.skip("the engine may be usable here")
    with pytest.raises(ValueError, match=message):
        search(data, bank, **OPTIONS, engine=name)
    with pytest.raises(ValueError, match=message):
        division(data, bank, engine=name)


def test_a_backend_of_another_kind_is_refused(data, bank):
    with pytest.raises(TypeError, match="engine must be a string, not 3"):
        search(data, bank, **OPTIONS, engine=3)


def test_the_command_names_the_backends(capsys):
    assert main(["search", "--engine=fast"]) == 1
    assert "invalid choice" in capsys.readouterr().err
    assert main(["search", "--help"]) == 0
    assert "--engine {xla,cuda}" in capsys.readouterr().out


def test_tables_and_checkpoints_name_the_backend(data, bank, tmp_path):
    path = tmp_path / "state"
    first = search(data, bank, **OPTIONS, checkpoint=path)
    assert first.meta["engine"] == "xla"
    assert read_checkpoint(checkpoint_bytes(path), path, bank)[1].engine == "xla"
    again = search(data, bank, **OPTIONS, checkpoint=path, engine="xla")
    np.testing.assert_array_equal(again["twoF"], first["twoF"])


def test_a_search_goes_on_with_the_backend_it_began_with(data, bank, tmp_path, monkeypatch):
    path = tmp_path / "state"
    search(data, bank, **OPTIONS, checkpoint=path)
    monkeypatch.setattr("jfstat.searching.statistics.coherent.engine_for", lambda *arguments: Cuda())
    with pytest.raises(ValueError, match=r"another search: what differs is engine \(xla there, cuda here\)"):
        search(data, bank, **OPTIONS, checkpoint=path, engine="cuda")


def test_both_backends_give_the_same_table(data, bank, monkeypatch):
    """With the kernels emulated."""
    expected = search(data, bank, **OPTIONS)
    monkeypatch.setattr("jfstat.searching.statistics.coherent.engine_for", lambda *arguments: Cuda(emulate=True))
    found = search(data, bank, **OPTIONS)
    assert found.meta["engine"] == "cuda"
    np.testing.assert_allclose(found["twoF"], expected["twoF"], rtol=1e-5)
    np.testing.assert_array_equal(found["freq"], expected["freq"])
    theirs, own = (table.meta["loudest_per_subband"] for table in (expected, found))
    assert own["start"] == theirs["start"] and own["stop"] == theirs["stop"]
    np.testing.assert_allclose(own["twoF"], theirs["twoF"], rtol=1e-5)

"""The README's Python runs as printed."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import jfstat

README = Path(__file__).parents[1] / "README.md"


def test_the_readmes_example_runs(tmp_path, monkeypatch):
    block, reuse, lattice, loop = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    source = jfstat.Doppler(alpha=2.1, delta=0.47, fkdot=[100.1, -1e-10], reftime=1167458304)
    sfts = jfstat.simulate_sfts(
        ["H1", "L1"], 1167458304, 43200, fmin=98.9, fmax=101.7, signals=[(source, jfstat.Amplitude(4e-25, 0.3))]
    )
    jfstat.write_sfts(sfts, tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(block, str(README), "exec"), names)
    assert abs(names["found"]["freq"][0].to_value("Hz") - 100.1) < 2e-3
    assert names["found"]["twoF"][0] > 50
    assert np.isfinite(float(jfstat.twoF(names["data"], names["point"])))

    point = names["point"]
    fkdot = np.stack([np.array(point.fkdot), np.array(point.fkdot) - [0, 1e-10]])
    names["points"] = jfstat.Doppler(np.full(2, point.alpha), np.full(2, point.delta), fkdot, point.reftime)
    exec(compile(reuse, str(README), "exec"), names)
    np.testing.assert_allclose(names["values"][0], jfstat.twoF_band(names["data"], point), rtol=1e-5, atol=1e-4)

    exec(compile(lattice, str(README), "exec"), names)
    assert len(names["found"]) == 1000
    assert (tmp_path / "search.checkpoint").exists()

    # from a template off the source to the peak that refine finds; optax mixes precisions as users do
    coordinates = jfstat.whiten(names["data"], source)
    names["point"] = coordinates.point(jnp.array([0.4, 0.3, -0.2, 0.2]))
    with jax.numpy_dtype_promotion("standard"):
        exec(compile(loop, str(README), "exec"), names)
    assert float(jfstat.twoF(names["data"], names["peak"])) > float(jfstat.twoF(names["data"], source)) - 0.02

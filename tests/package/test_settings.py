"""JAX's checking settings and explicit meshes: ordinary calls run under them, and give the numbers they give without.

All settings are on at once, so that each function is traced once for all of them; what calls give without them is
computed once.
"""

import pickle
from contextlib import ExitStack, contextmanager

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from two_devices import run_on_two_devices

import jfstat
from jfstat.engines.cuda.engine import Cuda

START, HOURS = 1_167_458_304, 12
PLACE = np.array([1.0, 0.3, 50.005, -1e-10])


@contextmanager
def checking():
    """Every setting of JAX with which it stops at what may be a mistake, and an explicit mesh."""
    with ExitStack() as entered:
        entered.enter_context(jax.debug_nans(True))
        entered.enter_context(jax.debug_infs(True))
        entered.enter_context(jax.numpy_rank_promotion("raise"))
        entered.enter_context(explicit_mesh())
        yield


@contextmanager
def explicit_mesh():
    with jax.set_mesh(jax.make_mesh((jax.device_count(),), ("x",))):
        yield


def template(x):
    return jfstat.Doppler(x[0], x[1], x[2:], START)


def short_sfts(hours=HOURS):
    signal = (template(PLACE), jfstat.Amplitude(3e-24, 0.3, 0.1, 0.2))
    return jfstat.simulate_sfts(["H1", "L1"], START, hours * 3600, 49.0, 51.1, sqrt_sx=1e-23, seed=1, signals=[signal])


def numbers(result):
    """The numbers of a result, table or not, by name."""
    if hasattr(result, "colnames"):
        columns = {name: np.ma.filled(np.asarray(result[name]), np.nan) for name in result.colnames}
        return {name: x for name, x in columns.items() if x.dtype.kind in "biuf"}
    return {str(i): np.asarray(x) for i, x in enumerate(jax.tree.leaves(result))}


PLAIN = {}
"""Numbers that steps give without a setting, by the name of the steps."""


def plain(steps):
    if steps.__name__ not in PLAIN:
        PLAIN[steps.__name__] = {name: numbers(x) for name, x in steps().items()}
    return PLAIN[steps.__name__]


def assert_same(steps, context, rtol=0.0):
    """Run steps with a setting, all of them under it, and compare with those without, by default to the bit."""
    wanted = plain(steps)
    with context():
        found = {name: numbers(x) for name, x in steps().items()}
    assert wanted.keys() == found.keys()
    for name, result in wanted.items():
        assert result, name
        for column, x in result.items():
            np.testing.assert_allclose(found[name][column], x, rtol=rtol, atol=0, err_msg=f"{name} {column}")


def statistics():
    data = jfstat.prepare(short_sfts(), 50.004, 50.006, guard=0.5)
    bank = jfstat.template_bank(1.0, 0.3, f1dot=[-1e-9, 1e-9], data=data)
    n = len(bank.alpha) * len(data.frequencies)
    return {
        "twoF": jfstat.twoF(data, template(PLACE)),
        "gradient": jax.grad(lambda x: jfstat.twoF(data, template(x)))(jnp.asarray(PLACE)),
        "twoF_band": jfstat.twoF_band(data, template(PLACE)),
        "search": jfstat.search(data, bank, top=n + 9, progress=False),  # more than there are: the rest is filled up
    }


@pytest.mark.ci
def test_statistics_and_searches():
    assert_same(statistics, checking)


def simulated():
    data = jfstat.prepare(short_sfts(), 50.004, 50.006, guard=0.5)
    point, amplitude = template(PLACE), jfstat.Amplitude(1e-24, 0.3)
    near, still = jfstat.narrow(data, point), np.zeros((2, 3))
    window = jfstat.TransientWindow("exponential", START + 10000.0, 10000.0, taper=3600.0)
    slices = jfstat.atoms(data, point, 3600)
    made = dict(start=START, duration=14400, fmin=49.5, fmax=50.5, sqrt_sx=None)
    return {
        "SFTs": jfstat.simulate_sfts("H1", signals=[(point, amplitude), (point, amplitude, window)], **made)["H1"].data,
        "noise": jfstat.noise_like(jax.random.key(1), data).series,
        "signal": jfstat.add_signal(data, point, amplitude).series,
        "signal in narrow data": jfstat.add_signal(near, point, amplitude).samples,
        "moved": jax.jit(jfstat.move_detectors)(data, still).observation.trajectory.coefficients,
        "atoms": jax.jit(jfstat.atoms)(data, point, sizes=jfstat.atom_sizes(data, point, 3600)).Fa,
        "atoms of narrow data": jax.jit(jfstat.atoms)(near, point).Fa,
        "narrow": jax.jit(jfstat.narrow)(data, point, sizes=jfstat.narrow_sizes(data, point)).samples,
        "tapered": jfstat.transient_twoF(data, point, window),
        "windowed": jfstat.twoF(jfstat.windowed(data, window), point),
        "map": jfstat.transient_map(slices, window, START + np.array([0.0, 7200.0]), np.array([7200.0, 14400.0])).twoF,
        "kernels": jax.jit(Cuda(emulate=True).ready)(data).filters,
    }


@pytest.mark.ci
def test_simulations_on_the_device():
    assert_same(simulated, checking)


def refined():
    """`follow_up` fits as `refine` does, over segments and coherently; `other_searches` calls that."""
    sfts = short_sfts(24)
    data, segments = (jfstat.prepare(sfts, 50.0, 50.01, guard=0.5, segments=n) for n in (None, 2))
    bank = jfstat.template_bank(1.0, 0.3, f1dot=[-2e-10, 0.0], data=data)
    found = jfstat.search(data, bank, top=3, progress=False)
    near = jfstat.narrow(data, template(PLACE))
    coordinates = jfstat.whiten(data, template(PLACE))
    density = jax.jit(jax.value_and_grad(lambda x: jfstat.log_posterior(near, coordinates, x)))
    return {
        "atoms": jfstat.atoms(data, template(PLACE)).Fa,
        "metric": jfstat.metric(data, template(PLACE)),
        "narrow": jfstat.twoF(near, template(PLACE)),
        "density": density(jnp.zeros(4)),
        "segments": jfstat.search(segments, bank, top=3, progress=False),
        "follow_up": jfstat.follow_up(sfts, found[:2], stages=(2, 1), progress=False),
    }


@pytest.mark.slow
def test_refinement_and_follow_ups():
    assert_same(refined, checking)


def transients_and_paths():
    sfts = short_sfts(24)
    data, segments = (jfstat.prepare(sfts, 50.0, 50.005, guard=0.5, segments=n) for n in (None, 2))
    times = np.arange(START, START + 40000, 20000)
    wanted = jfstat.TransientRange("rectangular", times, np.arange(20000, 60000, 20000))
    bank = jfstat.template_bank(1.0, 0.3, f1dot=[-2e-10, 0.0], data=data)
    window = jfstat.TransientWindow("exponential", START + 10000.0, 20000.0)
    table = jfstat.twoF_by_segment(segments, template(PLACE))
    return {
        "transients": jfstat.search(data, bank, jfstat.Transient(wanted), top=3, progress=False),
        "window": jfstat.transient_twoF(data, template(PLACE), window),
        "windowed": jfstat.twoF(jfstat.windowed(data, window), template(PLACE)),
        "paths": jfstat.search(segments, bank, jfstat.BestPath(1), top=3, progress=False),
        "viterbi": jfstat.viterbi(table / 2, 1).log_likelihood,
    }


@pytest.mark.ci
def test_transients_and_paths():
    assert_same(transients_and_paths, checking)


def other_searches():
    sfts = short_sfts(24)
    data, segments = (jfstat.prepare(sfts, 50.0, 50.005, guard=0.5, segments=n) for n in (None, 4))
    bank = jfstat.template_bank((0.9, 1.1), (0.25, 0.35), (-2e-10, 0.0), mismatch=0.5, data=data)
    few = jfstat.TransientRange("rectangular", START + 7200.0 * np.arange(5), 7200.0 * np.arange(2, 8))
    sources = jfstat.Population(alpha=1.0, delta=0.3, freq=(50.0, 50.005))
    transient = jfstat.fstat_table(data, template(PLACE), transient=few, progress=False)
    return {
        "interpolated": jfstat.search(segments, bank, jfstat.Interpolated(0.3), top=3, progress=False),
        "rectangular windows": jfstat.search(data, bank[:1], jfstat.Transient(few), top=3, progress=False),
        "tracks": jfstat.search(jfstat.normalise(sfts, 50.0, 50.005), bank[:2], top=3, progress=False),
        "limit": jfstat.transient_upper_limit(data, 60.0, few, sources, injections=100).h0,
        "refined windows": jfstat.refine(data, transient, progress=False),
    }


@pytest.mark.slow
def test_searches_of_segments_windows_and_tracks():
    assert_same(other_searches, checking)


TWO_DEVICES = """
import jax, jax.numpy as jnp, numpy as np
jax.config.update("jax_enable_x64", True)
from jax.sharding import NamedSharding, PartitionSpec
from package.test_settings import *

data = jfstat.prepare(short_sfts(), 50.004, 50.006, guard=0.5)
mesh = jax.make_mesh((2,), ("x",))
places = PLACE + np.array([0.0, 0.0, 1e-6, 0.0]) * np.arange(4)[:, None]
divided = jax.device_put(places, NamedSharding(mesh, PartitionSpec("x")))
for one in (
    lambda x: jfstat.twoF(data, template(x)),
    jax.grad(lambda x: jfstat.twoF(data, template(x))),
    lambda x: jfstat.twoF_band(data, template(x)),
):
    wanted = np.asarray(jax.jit(jax.vmap(one))(jnp.asarray(places)))
    own = jax.shard_map(jax.vmap(one), mesh=mesh, in_specs=PartitionSpec("x"), out_specs=PartitionSpec("x"))
    np.testing.assert_allclose(jax.jit(own)(divided), wanted, rtol=1e-6)
PLAIN.update(pickle.load(open(WANTED, "rb")))  # of one device
# programs for meshes round differently: samples are float32
assert_same(STEPS, explicit_mesh, 1e-6)
"""


@pytest.mark.slow
@pytest.mark.parametrize("steps", [statistics, refined])
def test_explicit_meshes_of_two_devices(steps, tmp_path):
    (tmp_path / "wanted").write_bytes(pickle.dumps({steps.__name__: plain(steps)}))
    given = f"WANTED, STEPS = {str(tmp_path / 'wanted')!r}, {steps.__name__}\n"
    done = run_on_two_devices(TWO_DEVICES.replace("import *\n", f"import *\n{given}"))
    assert done.returncode == 0, done.stderr[-3000:]

"""What objects say of themselves in an interpreter and in notebooks: few lines, all digits, and never an error."""

import re
from html.parser import HTMLParser

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfstat
from jfstat.display import as_html, as_text, brief

START = 1_167_458_304
ORBIT = jfstat.Orbit(1.44, 68023.7000001, START + 0.25, 0.1, 0.3)
POINT = jfstat.Doppler(2.1, 1 / 3, [100.01, -1e-10 / 3], f"{START}.123456789", ORBIT, motion=(1e-15, -2e-15))


def glitch(t, p):
    return p["df"] * t


@pytest.fixture(scope="module")
def objects():
    """One of each kind that can hold arrays."""
    sfts = jfstat.simulate_sfts(["H1", "L1"], START, 7200 * 2, 99.6, 100.4, sqrt_sx=4e-24, seed=1)
    data = jfstat.prepare(sfts, 100.0, 100.01, guard=0.3, sqrt_sx=4e-24)
    segments = jfstat.prepare(sfts, 100.0, 100.01, guard=0.3, sqrt_sx=4e-24, segments=2)
    point = jfstat.Doppler(2.1, 0.47, [100.005, -1e-10], START)
    model = jfstat.PhaseModel(glitch, {"df": 1e-7})
    parts = jfstat.atoms(data, point)
    n = 500
    rng = np.random.default_rng(0)
    bank = jfstat.Doppler(rng.uniform(0, 6, n), 0.1, rng.uniform(1, 2, (n, 2)), START + rng.integers(0, 9, n))
    return {
        "Doppler": POINT,
        "bank": bank,
        "grid of templates": jax.tree.map(lambda x: x.reshape(2, n // 2, *x.shape[1:]), bank),
        "with a model": jfstat.Doppler(1.0, 0.2, [99.0], model=model),
        "Orbit": ORBIT,
        "orbits": jfstat.Orbit([1.0, 2.0], 5e4, START),
        "Amplitude": jfstat.Amplitude(1e-24, 0.3),
        "amplitudes": jfstat.Amplitude([1e-24, 2e-24], 0.3),
        "GPSTime": POINT.reftime,
        "GPSTimes": bank.reftime,
        "PhaseModel": model,
        "FstatData": data,
        "segments": segments,
        "Observation": data.observation,
        "NarrowData": jfstat.narrow(data, point),
        "Atoms": parts,
        "TransientMap": jfstat.transient_map(parts, "rectangular", [START, START + 1800.0], [3600.0]),
        "TransientWindow": jfstat.TransientWindow("exponential", START, 3600.0),
        "TransientRange": jfstat.TransientRange("rectangular", START + 60.0 * np.arange(9), [3600.0]),
        "NarrowSizes": jfstat.narrow_sizes(data, point),
        "AtomSizes": jfstat.atom_sizes(data, point, 1800.0),
        "Fstat": jfstat.fstat(data, point),
        "Resampled": jfstat.resample(data, point),
        "SFTs": sfts,
        "SearchPlan": jfstat.plan_search(data, point, progress=False),
        "Spectrogram": jfstat.spectrogram(sfts)[0],
    }


def numbers(text):
    return [float(x) for x in re.findall(r"(?<![\w.])-?\d[\d.]*(?:e[-+]?\d+)?", text)]


def test_a_template_shows_its_values_exactly():
    said = numbers(repr(POINT).split("reftime")[0])
    assert said == [float(POINT.alpha), float(POINT.delta), *POINT.fkdot.tolist()]
    said = numbers(repr(ORBIT))
    assert said == [float(getattr(ORBIT, name)) for name in ("asini", "period", "tp", "ecc", "argp")]
    for word in ("2.1 rad", "100.01 Hz", "Hz/s", "rad/s", f"GPS {START}.123456789", "68023.7000001 s"):
        assert word in repr(POINT)
    again = re.search(r"reftime +GPS (\S+)", repr(POINT))[1]
    assert jfstat.GPSTime(**vars(POINT.reftime)) == jfstat.Doppler(1, 1, [1], again).reftime
    short = jfstat.Doppler(2.1, 0.5, [100.0], START)
    assert repr(short) == f"Doppler(alpha=2.1 rad, delta=0.5 rad, fkdot=[100.0 Hz], reftime=GPS {START})"


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ("1167458304.123456789", "1167458304.123456789"),
        (START, str(START)),
        (-1.25, "-1.25"),
        (-0.25, "-0.25"),
        (-3, "-3"),
        (0, "0"),
    ],
)
def test_times_have_all_their_digits(given, text):
    time = jfstat.Doppler(1, 1, [1], given).reftime
    assert str(time) == text and repr(time) == f"GPSTime({text})"
    if not text.startswith("-"):
        assert jfstat.Doppler(1, 1, [1], str(time)).reftime == time


@pytest.mark.ci
def test_a_bank_is_a_few_lines(objects):
    bank = objects["bank"]
    said = repr(bank)
    assert said.startswith("Doppler: 500 templates\n") and "f1dot" in said and f"GPS {START} to {START + 8}" in said
    low, high = (float(x) for x in re.search(r"alpha +(\S+) to (\S+) rad", said).groups())
    assert low == pytest.approx(float(bank.alpha.min())) and high == pytest.approx(float(bank.alpha.max()))
    assert "2 x 250 templates" in repr(objects["grid of templates"])


def test_data_say_what_they_hold(objects):
    data = repr(objects["FstatData"])
    for word in ("H1, L1", f"GPS {START} to {START + 14400}", "100 to 100.01 Hz", "guard", "DE405", "kB", "8 of H1"):
        assert word in data
    assert "2 of 0.0833 d" in repr(objects["segments"])
    near = objects["NarrowData"]
    assert "centre" in repr(near) and "blocks" in repr(near)
    assert near.fmin < 100.005 < near.fmax and near.fmax - near.fmin == pytest.approx(2 * float(near.reach))
    for f in (near.fmin, near.fmax):
        assert bool(jfstat.covers(near, jfstat.Doppler(2.1, 0.47, [f, -1e-10], START)))
    both = jax.tree.map(lambda x: jnp.stack([x, x]), near)
    assert (both.fmin, both.fmax) == (near.fmin, near.fmax)
    assert objects["FstatData"].fmax == objects["FstatData"].frequencies[-1]
    assert objects["segments"].fmin == 100.0


def test_every_object_is_a_few_lines_of_text_and_a_table(objects):
    for name, x in objects.items():
        text = repr(x)
        assert len(text.splitlines()) <= 14 and len(text) < 1200 and "Array(" not in text, name
        assert len(text) > len(type(x).__name__) + 2, f"{name}: nothing but a name, as after an error"
        if hasattr(x, "_repr_html_"):
            html = x._repr_html_()
            assert html.startswith("<table>") and html.count("<tr>") == html.count("</tr>")


def traced(function, x):
    said = []
    jax.eval_shape(lambda own: said.append(function(own)), x)
    return said[0]


@pytest.mark.parametrize(
    "leaf",
    [
        lambda x: None,
        lambda x: 0,
        lambda x: "<script>",
        lambda x: object(),
        lambda x: jnp.shape(x),
        lambda x: jax.ShapeDtypeStruct(np.shape(x), x.dtype),
        lambda x: np.zeros(0),
        lambda x: np.asarray(x)[None, None],
        lambda x: np.full(np.shape(x), np.nan),
        lambda x: [x],
    ],
    ids=["none", "axis", "text", "object", "shape", "struct", "empty", "stacked", "NaN", "list"],
)
def test_trees_of_anything_can_be_shown(objects, leaf):
    for name, x in objects.items():
        if name in ("SFTs", "SearchPlan", "Spectrogram", "TransientRange"):
            continue
        other = jax.tree.map(leaf, x)
        assert isinstance(repr(other), str) and isinstance(str(other), str), name
        if hasattr(other, "_repr_html_"):
            assert "<script>" not in other._repr_html_()


def test_traced_objects_can_be_shown(objects):
    for name, x in objects.items():
        if name in ("SFTs", "SearchPlan", "Spectrogram", "TransientRange"):
            continue
        assert traced(repr, x) and traced(str, x)
    assert "traced float64[]" in traced(repr, POINT)
    assert "H1, L1" in traced(repr, objects["FstatData"])
    assert traced(lambda x: x._repr_html_(), POINT).startswith("<table>")


class Cells(HTMLParser):
    def __init__(self):
        super().__init__()
        self.texts, self.tags = [], set()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)

    def handle_data(self, data):
        self.texts.append(data)


def test_html_is_escaped():
    def hostile(t, p):
        return p * t

    hostile.__name__ = "<img src=x onerror=alert(1)>"
    point = jfstat.Doppler(1.0, 0.2, [99.0], model=jfstat.PhaseModel(hostile, 0.5))
    cells = Cells()
    cells.feed(point._repr_html_())
    assert cells.tags == {"table", "caption", "tbody", "tr", "th", "td"}
    assert any(hostile.__name__ in text for text in cells.texts)


def test_arrays_in_short():
    assert brief(np.float64(0.1) * 3) == "0.30000000000000004"
    assert brief(jnp.asarray([1.5, 2.0]), "Hz / s2") == "[1.5, 2.0] Hz/s2"
    assert brief(np.arange(10.0)) == "10 values, 0 to 9"
    assert brief(np.array([1.0, np.nan] * 4)) == "8 values, 1.0, 4 NaN"
    assert brief(np.float32(0.1)) == "0.1"
    assert brief(None) == "None" and brief(("freq", "alpha")) == "('freq', 'alpha')"
    facts = POINT._facts()
    assert as_text(facts) == repr(POINT) and as_html(facts) == POINT._repr_html_()

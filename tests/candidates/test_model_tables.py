"""A table of templates with a phase model cannot hold its function: whoever would drop it refuses the table."""

import jax
import jax.numpy as jnp
import pytest

import jfstat

START = 1_167_458_304


def quadratic(t, parameters):
    return parameters["k"] * t**2


@pytest.fixture(scope="module")
def case():
    model = jfstat.PhaseModel(quadratic, {"k": 4e-9})
    point = jfstat.Doppler(2.1, 0.47, [100.01, -1e-10], START, model=model)
    signals = [(point, jfstat.Amplitude(2e-24, 0.3))]
    sfts = jfstat.simulate_sfts(["H1"], START, 21600, 99.6, 100.4, sqrt_sx=4e-24, signals=signals, seed=1)
    data = jfstat.prepare(sfts, 100.0, 100.02, guard=0.3, sqrt_sx=4e-24)
    return sfts, data, point, jfstat.fstat_table(data, point, progress=False)


def test_the_table_of_templates_has_the_models_column(case):
    _, data, point, table = case
    assert "model.k" in table.colnames
    assert table["twoF"][0] == pytest.approx(float(jfstat.twoF(data, point)), rel=1e-6)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda sfts, data, table, path: jfstat.fstat_table(data, table, progress=False), "points"),
        (lambda sfts, data, table, path: jfstat.search(data, table, top=1, progress=False), "table"),
        (lambda sfts, data, table, path: jfstat.bank_from_table(table), "table"),
        (lambda sfts, data, table, path: jfstat.refine(data, table, progress=False), "found"),
        (lambda sfts, data, table, path: jfstat.follow_up(sfts, table, stages=(2, 1), progress=False), "found"),
        (lambda sfts, data, table, path: jfstat.write_templates(table, path / "grid.txt"), "table"),
    ],
)
def test_the_model_is_not_dropped(case, tmp_path, call, name):
    sfts, data, _, table = case
    with pytest.raises(ValueError, match=rf"^{name} has the column 'model\.k' of a phase model, which is not known"):
        call(sfts, data, table, tmp_path)
    assert not any(tmp_path.iterdir())


@pytest.mark.ci
def test_with_the_model_it_is_refined(case):
    _, data, point, table = case
    refined = jfstat.refine(data, table, model=point.model, progress=False)
    assert refined["twoF"][0] >= table["twoF"][0]


def test_stacks_of_data_that_overlap_are_no_segments(case):
    """Their values would count as independent: chances of noise squared, errors too small."""
    _, data, _, _ = case
    stack = jax.tree.map(lambda x: jnp.stack([x, x]), data)
    point = jfstat.Doppler(2.1, 0.47, [100.01, -1e-10], START)
    table = jfstat.fstat_table(data, point, progress=False)
    for call in (
        lambda: jfstat.search(stack, point, top=1, progress=False),
        lambda: jfstat.search(stack, point, jfstat.BestPath(1), top=1, progress=False),
        lambda: jfstat.plan_search(stack, point),
        lambda: jfstat.refine(stack, table, progress=False),
        lambda: jfstat.fstat_table(stack, point, progress=False),
        lambda: jfstat.metric(stack, point),
        lambda: jfstat.whiten(stack, point),
        lambda: jfstat.template_bank((2.0, 2.1), (0.4, 0.5), data=stack),
    ):
        with pytest.raises(ValueError, match="overlap in time, so they are a stack of data sets"):
            call()
    assert jax.vmap(jfstat.twoF, (0, None))(stack, point).shape == (2,)


def test_segments_are_taken_one_by_one(case):
    sfts, *_ = case
    segments = jfstat.prepare(sfts, 100.0, 100.02, guard=0.3, segments=2)
    for wrong in (slice(0, 1), [0, 1], 1.0, True, jnp.array([True, False])):
        with pytest.raises(TypeError, match="takes the number of one segment"):
            segments[wrong]
    assert segments[-1].n_segments is None

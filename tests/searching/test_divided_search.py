"""A search cut up in whatever way gives the same table: stopped and resumed, in units, on many devices."""

import copy
import dataclasses
import io
import os
import signal
import socket
import subprocess
import sys
import time
import warnings

import jax
import numpy as np
import pytest
from searches import division, search

import jfstat
from jfstat.commandline import main
from jfstat.searching.reduce.toplist import NO_PEAKS, Peaks, Toplist
from jfstat.searching.session import checkpoint as checkpoints
from jfstat.searching.session.banksums import bank_sums, column_sums, same_sums
from jfstat.searching.session.lock import held
from jfstat.searching.session.stop import SearchStopped, stop_requests

START = 1167458304
OPTIONS = dict(top=60, batch_size=4, progress=False)


@pytest.fixture(scope="module")
def sfts():
    point = jfstat.Doppler(1.1, 0.4, [50.0123, -2e-10], reftime=START)
    signals = [(point, jfstat.Amplitude(1e-24, 0.3, 0.2, 1.0))]
    return jfstat.simulate_sfts(["H1", "L1"], START, 43200, 49.0, 51.1, sqrt_sx=4e-24, signals=signals)


@pytest.fixture(scope="module")
def data(sfts):
    return jfstat.prepare(sfts, 50.0, 50.03, reftime=START)


@pytest.fixture(scope="module")
def bank(data):
    """33 sky positions and no common factor with anything."""
    return jfstat.template_bank((0.1, 2.1, 0.2), [-0.2, 0.1, 0.4], f1dot=-2e-10, data=data)


@pytest.fixture(scope="module")
def plain(data, bank):
    return as_bytes(search(data, bank, **OPTIONS))


def as_bytes(table):
    out = io.StringIO()
    table.write(out, format="ascii.ecsv")
    return out.getvalue()


class Killed(Exception):
    pass


def killed_after(monkeypatch, n):
    """Let the n-th write of a checkpoint be the last thing that happens."""
    write, count = checkpoints.write_checkpoint, [0]

    def dying(*arguments):
        write(*arguments)
        count[0] += 1
        if count[0] == n:
            raise Killed

    monkeypatch.setattr(checkpoints, "write_checkpoint", dying)


@pytest.mark.parametrize("moments", [[1], [3, 1, 2], [8]])
def test_killed_and_resumed(data, bank, plain, tmp_path, monkeypatch, moments):
    path = tmp_path / "search.checkpoint"
    monkeypatch.setattr("jfstat.searching.session.pace.Pace.due", lambda self: True)
    for n in moments:
        with monkeypatch.context() as patch, pytest.raises(Killed):
            killed_after(patch, n)
            search(data, bank, checkpoint=path, **OPTIONS)
    state, plan, _ = checkpoints.read_checkpoint(path.read_bytes(), path, bank)
    assert state.done == sum(moments)
    assert len(plan.batches) == 9
    assert as_bytes(search(data, bank, checkpoint=path, **OPTIONS)) == plain
    # the search is over: its table comes again without computing
    monkeypatch.setattr("jfstat.searching.driver.devices.loudest", None)
    assert as_bytes(search(data, bank, checkpoint=path, **OPTIONS)) == plain


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_stop_after_the_batch(data, bank, plain, tmp_path, monkeypatch, number):
    path = tmp_path / "search.checkpoint"
    write, sent = checkpoints.write_checkpoint, []

    def interrupting(*arguments):
        write(*arguments)
        if not sent:
            sent.append(number)
            os.kill(os.getpid(), number)

    handlers = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        patch.setattr(checkpoints, "write_checkpoint", interrupting)
        with pytest.raises(SearchStopped, match="the same call goes on from there") as stopped:
            search(data, bank, checkpoint=path, **OPTIONS)
    assert stopped.value.signal == number
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == handlers
    state, _, _ = checkpoints.read_checkpoint(path.read_bytes(), path, bank)
    assert 1 <= state.done < 9
    assert as_bytes(search(data, bank, checkpoint=path, **OPTIONS)) == plain


def test_a_second_signal_interrupts_at_once():
    usual = signal.signal(signal.SIGINT, signal.default_int_handler)  # test runners' workers ignore it
    try:
        with pytest.raises(KeyboardInterrupt), stop_requests(True) as request:
            os.kill(os.getpid(), signal.SIGINT)
            assert request.signal == signal.SIGINT
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
    finally:
        signal.signal(signal.SIGINT, usual)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d, b: dict(top=61), r"top \(60 there, 61 here\)"),
        (lambda d, b: dict(threshold=20.0), r"threshold \(None there, 20.0 here\)"),
        (lambda d, b: dict(batch_size=5), r"batch_size \(4 there, 5 here\)"),
        (lambda d, b: dict(unit=(1, 2)), r"unit"),
        (lambda d, b: dict(bank=jax.tree.map(lambda x: x[:-1], b)), r"n_templates \(33 there, 32 here\)"),
        (lambda d, b: dict(bank=jfstat.Doppler(b.alpha + 1e-6, b.delta, b.fkdot)), "the bank's templates"),
        (lambda d, b: dict(bank=jax.tree.map(lambda x: x[::-1], b)), "the bank's templates"),
    ],
)
def test_a_checkpoint_of_another_search_is_refused(data, bank, tmp_path, change, message):
    path = tmp_path / "search.checkpoint"
    search(data, bank, checkpoint=path, **OPTIONS)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=f"of another search: what differs is .*{message}"):
        search(**(dict(data=data, bank=bank, checkpoint=path) | OPTIONS | change(data, bank)))
    assert path.read_bytes() == before


@pytest.fixture(scope="module")
def long_bank():
    """1e5 sky positions with spin-downs and orbits, of which GPS times lie far from zero and close together."""
    rng = np.random.default_rng(3)
    n = 100_000
    orbit = jfstat.Orbit(rng.uniform(1, 2, n), rng.uniform(9e4, 9.1e4, n), START + rng.uniform(0, 50, n))
    bank = jfstat.Doppler(rng.uniform(0, 6, n), rng.uniform(-1, 1, n), np.full((n, 1), 50.0), orbit=orbit)
    return jax.tree.map(np.array, bank)


@pytest.mark.parametrize("place", [0, 12_345, 49_999, 99_998])
@pytest.mark.parametrize("name", ["alpha", "tp"])
def test_two_exchanged_rows_of_a_long_bank_are_seen(long_bank, place, name):
    """Of neighbours, and by as little as neighbouring templates ever differ."""
    column = np.array(long_bank.alpha if name == "alpha" else long_bank.orbit.tp)
    column[place + 1] = column[place] + (1e-6 if name == "alpha" else 1e-2)
    exchanged = column.copy()
    exchanged[[place, place + 1]] = exchanged[[place + 1, place]]
    one, other = column_sums([column]), column_sums([exchanged])
    assert not same_sums(one, other)
    assert same_sums(one, one)


def test_a_bank_with_rounding_errors_is_the_same(long_bank):
    """As of another processor: a few last bits of each value, and of the whole column alike."""
    rng = np.random.default_rng(4)
    bits = np.finfo(float).eps
    for wrong in (lambda x: x * (1 + 2 * bits * rng.uniform(-1, 1, x.shape)), lambda x: x * (1 + bits)):
        assert same_sums(bank_sums(jax.tree.map(wrong, long_bank)), bank_sums(long_bank))


@pytest.mark.ci
def test_exchanged_rows_are_refused_by_checkpoint_and_merge(data, bank, tmp_path):
    path = tmp_path / "search.checkpoint"
    column = np.repeat(np.asarray(bank.alpha), 40)
    column += np.linspace(0, 1e-5, len(column))  # neighbours far closer than templates are
    long = jfstat.Doppler(column, np.full(len(column), 0.1), np.tile([50.0, -2e-10], (len(column), 1)))
    rows = np.arange(len(column))
    rows[[700, 701]] = rows[[701, 700]]
    other = jax.tree.map(lambda x: x[rows], long)
    options = OPTIONS | dict(batch_size=128, per_detector=False)
    search(data, long, checkpoint=path, **options)
    with pytest.raises(ValueError, match="the bank's templates"):
        search(data, other, checkpoint=path, **options)
    first, second = (search(data, x, unit=(i, 2), **options) for i, x in enumerate((long, other), 1))
    with pytest.raises(ValueError, match="the bank's templates"):
        jfstat.merge([first, second])


def test_another_ephemeris_of_the_same_name_is_refused(sfts, bank, tmp_path):
    """Files that were replaced keep their name."""
    path = tmp_path / "search.checkpoint"
    data = [jfstat.prepare(sfts, 50.0, 50.03, reftime=START, ephemeris=name) for name in ("DE405", "DE421")]
    renamed = dataclasses.replace(data[1], observation=dataclasses.replace(data[1].observation, ephemeris="DE405"))
    search(data[0], bank, checkpoint=path, **OPTIONS)
    with pytest.raises(ValueError, match="what differs is the tables of the ephemeris"):
        search(renamed, bank, checkpoint=path, **OPTIONS)


def test_a_checkpoint_of_other_data_or_another_version_is_refused(data, bank, tmp_path, monkeypatch):
    path = tmp_path / "search.checkpoint"
    search(data, bank, checkpoint=path, **OPTIONS)
    # other noise, and the same noise with another signal
    weak = [(jfstat.Doppler(1.1, 0.4, [50.02], reftime=START), jfstat.Amplitude(1e-25, 0.3))]
    for options in (dict(seed=1), dict(signals=weak)):
        other = jfstat.simulate_sfts(["H1", "L1"], START, 43200, 49.0, 51.1, sqrt_sx=4e-24, **options)
        other = jfstat.prepare(other, 50.0, 50.03, reftime=START)
        with pytest.raises(ValueError, match="the data's samples"):
            search(other, bank, checkpoint=path, **OPTIONS)
    monkeypatch.setattr("jfstat.version.__version__", "99")
    with pytest.raises(ValueError, match=r"jfstat \(.* there, 99 here\)"):
        search(data, bank, checkpoint=path, **OPTIONS)


def test_what_is_no_checkpoint_is_refused(data, bank, tmp_path):
    path = tmp_path / "search.checkpoint"
    for content in (b"", b"text", b"PK\x03\x04 cut off"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="is no checkpoint of a search"):
            search(data, bank, checkpoint=path, **OPTIONS)
        assert path.read_bytes() == content
    with pytest.raises(FileNotFoundError, match=r"checkpoint .* cannot be written"):
        search(data, bank, checkpoint=tmp_path / "nowhere" / "x", **OPTIONS)


def test_a_full_disk_leaves_the_last_checkpoint(data, bank, plain, tmp_path, monkeypatch):
    path = tmp_path / "search.checkpoint"
    monkeypatch.setattr("jfstat.searching.session.pace.Pace.due", lambda self: True)
    savez, count = np.savez, [0]

    def full(*arguments, **arrays):
        count[0] += 1
        if count[0] == 4:
            arguments[0].write(b"half")
            raise OSError(28, "No space left on device")
        savez(*arguments, **arrays)

    with monkeypatch.context() as patch:
        patch.setattr(np, "savez", full)
        with pytest.raises(OSError, match=r"cannot be written .No space left on device.: what it held is kept"):
            search(data, bank, checkpoint=path, **OPTIONS)
    assert [file.name for file in tmp_path.iterdir()] == ["search.checkpoint"]
    assert checkpoints.read_checkpoint(path.read_bytes(), path, bank)[0].done == 3
    assert as_bytes(search(data, bank, checkpoint=path, **OPTIONS)) == plain


@pytest.mark.parametrize("n_units", [1, 2, 8, 12])
def test_units_merge_to_the_table_of_the_whole(data, bank, plain, tmp_path, n_units):
    files = []
    for i in range(1, n_units + 1):  # more units than batches leave some with nothing to do
        table = search(data, bank, unit=(i, n_units), **OPTIONS)
        files.append(jfstat.write_candidates(table, tmp_path / f"{i}.ecsv"))
    tables = [jfstat.read_candidates(file) for file in reversed(files)]
    assert as_bytes(jfstat.merge(tables)) == plain


def test_other_kinds_of_processor_are_told(data, bank, plain):
    """The last bits of values may differ between them."""
    tables = [search(data, bank, unit=(i, 3), **OPTIONS) for i in (1, 2, 3)]
    own = tables[0].meta["processor"]
    assert own and "," not in own
    tables[1].meta["processor"] = "Another one (0123)"
    with pytest.warns(UserWarning, match=r"2 kinds of processor.*units 1, 3") as told:
        merged = jfstat.merge(tables)
    assert len(told) == 1
    assert merged.meta["processor"] == ", ".join(sorted(("Another one (0123)", own)))
    merged.meta["processor"] = own
    assert as_bytes(merged) == plain


def test_what_does_not_belong_together_is_not_merged(data, bank):
    first, second = (search(data, bank, unit=(i, 2), per_detector=False, **OPTIONS) for i in (1, 2))
    for tables, message in (
        ([], "tables is empty"),
        ([first], "tables lack 1 of 2 units, 2"),
        ([first, second, second], "tables hold unit 2 twice"),
        ([first, search(data, bank, **OPTIONS)], r"tables\[1\] is not of a unit"),
        ([first, search(data, bank, unit=(2, 3), **OPTIONS)], "the number of units"),
        ([first, search(data, bank, unit=(2, 2), **(OPTIONS | dict(top=5)))], r"top \(60 there, 5 here\)"),
    ):
        with pytest.raises(ValueError, match=message):
            jfstat.merge(tables)


def set_meta(name, value):
    return lambda table: table.meta.update({name: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_meta("unit", (1, 10**9)), "tables lack 999999999 of 1000000000 units, 2, 3, 4, .*, 11, ...: do them"),
        (set_meta("unit", (4, 3)), "'unit' of its meta is not a pair"),
        (set_meta("unit", "ab"), "'unit' of its meta is not a pair"),
        (set_meta("unit", (1.0, 1.0)), "'unit' of its meta is not a pair"),
        (set_meta("identity", None), "'identity' of its meta is not a mapping"),
        (set_meta("twoF_histogram", [1, 2]), "'twoF_histogram' of its meta is not a list of 30"),
        (set_meta("loudest_per_subband", {"start": [1]}), "'loudest_per_subband' of its meta is not lists"),
        (set_meta("top", "x"), "'top' of its meta"),
        (lambda table: table.meta.pop("n_twoF"), "its meta lacks 'n_twoF'"),
        (lambda table: table.remove_column("template"), "it lacks the column 'template'"),
        (lambda table: table.replace_column("twoF", [None] * len(table)), "its column 'twoF' does not hold a number"),
    ],
)  # fmt: skip
def test_meta_that_was_changed_is_refused_before_it_is_used(data, bank, change, message):
    table = search(data, bank, unit=(1, 1), per_detector=False, **OPTIONS)
    change(table)
    with pytest.raises(ValueError, match=message) as error:
        jfstat.merge([table])
    assert "\n" not in str(error.value)


def places(meta, before=()):
    """Keys of a meta and of the mappings within it."""
    for name, value in meta.items():
        yield (*before, name)
        if isinstance(value, dict):
            yield from places(value, (*before, name))


JUNK = [None, "x", -1, 0, 2.5, np.nan, np.inf, 10**400, True, [], [1], ["x"], [None], [[1, 2], [3]], {}, {"a": 1}, b"x"]


def test_whatever_is_changed_in_units_merge_says_a_sentence(data, bank, tmp_path, capsys):
    options = OPTIONS | dict(top=8, cluster=0.8, bounds={"f1dot": (-1e-9, 0)})
    units = [search(data, bank, unit=(i, 2), per_detector=False, **options) for i in (1, 2)]
    keys, rng = list(places(units[0].meta)), np.random.default_rng(4)
    refused = 0
    for _ in range(60):
        changed, key = [unit.copy() for unit in units], keys[rng.integers(len(keys))]
        for unit in changed[int(rng.integers(2)) :]:
            unit.meta = copy.deepcopy(unit.meta)
            own = unit.meta
            for name in key[:-1]:
                own = own[name]
            junk = rng.integers(-1, len(JUNK))
            own |= {key[-1]: JUNK[junk]} if junk >= 0 else {}
            if junk < 0:
                del own[key[-1]]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "tables are from . kinds of processor")
            try:
                jfstat.merge(changed)
            except ValueError as error:
                refused += 1
                assert str(error).startswith("tables") and "\n" not in str(error), (key, str(error))
    assert refused > 25


@pytest.mark.parametrize("column", ["freq", "alpha", "f1dot", "twoF", "template"])
def test_whatever_is_changed_in_columns_merge_says_a_sentence(data, bank, column):
    units = [search(data, bank, unit=(i, 2), per_detector=False, cluster=0.8, **OPTIONS) for i in (1, 2)]
    for values in (np.nan, "a", 1e300, [[1.0, 2.0]], None):
        changed = [unit.copy() for unit in units]
        for unit in changed:
            del unit[column]
            if values is not None:
                unit[column] = np.repeat(np.array(values if np.ndim(values) else [values]), len(unit), axis=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                jfstat.merge(changed)
            except ValueError as error:
                assert str(error).startswith("table") and "\n" not in str(error)


def test_a_clustered_search_may_find_nothing_and_the_program_names_the_file(data, bank, tmp_path, capsys):
    options = dict(batch_size=4, progress=False, per_detector=False, cluster=0.8, threshold=1e9)
    whole = search(data, bank, **options)
    units = [search(data, bank, unit=(i, 2), **options) for i in (1, 2)]
    assert len(whole) == 0 and "n_members" in whole.colnames
    assert as_bytes(jfstat.merge(units)) == as_bytes(whole)
    units[1].meta["bounds"] = None
    files = [str(jfstat.write_candidates(unit, tmp_path / f"{i}.ecsv")) for i, unit in enumerate(units)]
    assert main(["merge", *files, f"--outputFstat={tmp_path / 'out.ecsv'}"]) == 1
    assert f"error: {files[1]} is damaged or changed: 'bounds' of its meta is not a mapping" in capsys.readouterr().err


def test_what_are_no_tables_is_refused_and_wild_columns_do_no_harm(data, bank):
    for wrong in (None, "tables", [None], 3, search(data, bank, unit=(1, 1), per_detector=False, **OPTIONS)):
        with pytest.raises(TypeError, match="tables must be a sequence of QTables"):
            jfstat.merge(wrong)
    table = search(data, bank, unit=(1, 1), per_detector=False, **OPTIONS)
    for name in ("data", "bank"):
        other = table.copy()
        other.meta["identity"] = other.meta["identity"] | {name: ["x", None]}
        other.meta["unit"] = table.meta["unit"] = (1, 2)
        with pytest.raises(ValueError, match="what differs is"):
            jfstat.merge([table, other])
    table["f99999999dot"] = np.zeros(len(table))  # no derivative: nothing makes columns for all those below it
    table.meta["unit"] = (1, 1)
    assert "f99999999dot" in jfstat.merge([table]).colnames
    with pytest.raises(ValueError, match=r"lacks the column .freq"):
        jfstat.refine(data, table["alpha", "delta", "f99999999dot"], progress=False)


def test_only_leftovers_of_the_same_checkpoint_are_removed(data, bank, tmp_path):
    """Another search, whose checkpoint has a longer name, may be writing just now."""
    kept = [".run.2.0123abcd.part", ".run.x.part", ".run.0123abcd.0123abcd.part", ".runs.0123abcd.part"]
    for name in (*kept, ".run.0123abcd.part"):
        (tmp_path / name).write_bytes(b"half")
    search(data, bank, checkpoint=tmp_path / "run", per_detector=False, **OPTIONS)
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "run"])
    odd = tmp_path / "run[1]*"
    (tmp_path / ".run[1]*.0123abcd.part").write_bytes(b"half")
    search(data, bank, checkpoint=odd, per_detector=False, **OPTIONS)
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "run", "run[1]*"])


def test_two_searches_on_one_checkpoint_are_told(data, bank, tmp_path):
    path, options = tmp_path / "run", OPTIONS | dict(per_detector=False)
    link = tmp_path / "link"
    link.symlink_to(path)
    with held(path):
        for name in (path, link):
            with pytest.raises(ValueError, match=rf"in use by another run .process {os.getpid()} on .*: wait for"):
                search(data, bank, checkpoint=name, **options)
    assert os.listdir(tmp_path) == ["link"]
    holding = "import sys, time; from pathlib import Path; from jfstat.searching.session.lock import held\n"
    holding += "with held(Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(600)\n"
    with subprocess.Popen([sys.executable, "-c", holding, str(path)], stdout=subprocess.PIPE) as other:
        assert other.stdout.readline() == b"held\n"
        with pytest.raises(ValueError, match=f"in use by another run .process {other.pid} on"):
            search(data, bank, checkpoint=path, **options)
        other.kill()
    first = search(data, bank, checkpoint=path, **options)  # killed, it holds it no longer
    assert as_bytes(search(data, bank, checkpoint=path, **options)) == as_bytes(first)
    assert sorted(os.listdir(tmp_path)) == ["link", "run"]


def test_shares_are_whole_and_disjoint():
    for n_jobs, n in ((0, 3), (1, 3), (64, 64), (1000, 7)):
        ranges = [jfstat.Run(unit=(i, n)).jobs(n_jobs) for i in range(1, n + 1)]
        assert [start for start, _ in ranges[1:]] == [stop for _, stop in ranges[:-1]]
        assert (ranges[0][0], ranges[-1][1]) == (0, n_jobs)


def test_keeping_does_not_depend_on_the_order_of_merging():
    rng = np.random.default_rng(0)
    twoF = rng.integers(0, 8, 60).astype(np.float32)  # many equal values
    every = Peaks(twoF, rng.permutation(60).astype(np.int64), rng.integers(0, 9, 60).astype(np.int64))
    for keep in (Toplist(20, None), Toplist(None, 3.0), Toplist(20, 6.0)):
        results = []
        for order in (rng.permutation(60) for _ in range(5)):
            found = NO_PEAKS
            for rows in np.split(order, [7, 30, 31]):
                found = keep.merged(found, Peaks(*(x[rows] for x in every)))
            results.append(found)
        assert all(x.tobytes() == y.tobytes() for found in results for x, y in zip(found, results[0], strict=True))
        assert len(results[0].twoF) <= (keep.top or 60)
        assert keep.threshold is None or results[0].twoF.min() >= keep.threshold


@pytest.mark.ci
def test_a_threshold_alone_keeps_all_above_it(data, bank, monkeypatch):
    """However many of a batch cross it: more than are asked for at first."""
    monkeypatch.setattr("jfstat.searching.reduce.toplist.FIRST_KEPT", 16)
    options = dict(batch_size=4, progress=False, per_detector=False)
    many = search(data, bank, top=400, **options)
    # between two values, since these are two programs, which may round apart
    threshold = float(np.mean(many["twoF"][300:302]))
    found = search(data, bank, top=None, threshold=threshold, **options)
    assert len(found) == np.sum(many["twoF"] >= threshold) == 301
    assert np.bincount(np.asarray(found["template"]) // 4).max() > 16
    np.testing.assert_array_equal(found["template"], many["template"][: len(found)])


def test_clustering_keeps_the_loudest_of_each_neighbourhood(data, bank):
    options = dict(top=200, progress=False, per_detector=False)
    every = search(data, bank, **options)
    found = search(data, bank, cluster=1.0, **options)
    assert found["twoF"][0] == every["twoF"][0]
    assert np.sum(found["n_members"]) == 200
    assert found["n_members"][0] > 5  # the signal's neighbours
    assert len(found) < 150
    units = [search(data, bank, cluster=1.0, unit=(i, 3), **options) for i in (1, 2, 3)]
    undivided = search(data, bank, cluster=1.0, **options)
    assert as_bytes(jfstat.merge(units)) == as_bytes(undivided)


@pytest.mark.slow
def test_parts_of_a_band_with_orbits_keep_all_subbands(data, monkeypatch, tmp_path):
    """Parts at the band's edges have other layouts than those between, because orbits need room."""
    orbit = jfstat.Orbit(0.02, 40000.0, START, 0.1, 0.3)
    prepared = jfstat.simulate_sfts("H1", START, 43200, 48.5, 51.6, sqrt_sx=4e-24)
    prepared = jfstat.prepare(prepared, 50.0, 50.1, reftime=START, orbit=orbit)
    bank = jfstat.template_bank([1.0, 1.1, 1.2], 0.4, orbit=orbit)
    options = dict(top=5, progress=False, amplitudes=False, batch_size=1)
    whole = search(prepared, bank, **options)
    monkeypatch.setattr("jfstat.searching.driver.banddivision.parts_needed", lambda *arguments: 4)
    plan = division(prepared, bank, 1)
    assert len(plan.bands) == 4
    path = tmp_path / "checkpoint"
    divided = search(prepared, bank, checkpoint=path, **options)
    subbands = divided.meta["loudest_per_subband"]
    assert subbands["start"][0] == pytest.approx(50.0)
    assert subbands["stop"][-1] == pytest.approx(50.1, abs=2e-5)
    np.testing.assert_array_equal(subbands["start"][1:], subbands["stop"][:-1])
    assert max(subbands["twoF"]) == divided["twoF"][0]
    assert divided.meta["n_twoF"] == whole.meta["n_twoF"]
    np.testing.assert_allclose(divided["twoF"], whole["twoF"], rtol=1e-4)
    assert as_bytes(search(prepared, bank, checkpoint=path, **options)) == as_bytes(divided)
    units = [search(prepared, bank, unit=(i, 5), **options) for i in range(1, 6)]
    assert as_bytes(jfstat.merge(units)) == as_bytes(divided)
    monkeypatch.setattr("jfstat.searching.driver.banddivision.parts_needed", lambda *arguments: 3)
    other = search(prepared, bank, unit=(1, 5), **options)
    with pytest.raises(ValueError, match="of different searches: what differs is parts"):
        jfstat.merge([other, *units[1:]])


def test_exhausted_memory_does_not_cost_what_was_done(data, bank, plain, tmp_path, monkeypatch):
    path = tmp_path / "search.checkpoint"
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("jfstat.searching.session.pace.Pace.due", lambda self: True)
        killed_after(patch, 3)
        search(data, bank, checkpoint=path, **OPTIONS)
    before = path.read_bytes()

    def full(*arguments):
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: out of memory")

    with monkeypatch.context() as patch:
        patch.setattr("jfstat.searching.driver.devices.loudest", full)
        options = OPTIONS | dict(batch_size=None)
        with pytest.raises(ValueError, match="3 batches are kept in"):
            search(data, bank, checkpoint=path, **options)
    assert path.read_bytes() == before
    assert as_bytes(search(data, bank, checkpoint=path, **options)) == plain


def test_numbers_of_any_kind_will_do(data, bank, plain, tmp_path):
    options = dict(top=np.int32(60), batch_size=np.int64(4), progress=False, cluster=np.float32(1.0))
    found = search(data, bank, checkpoint=tmp_path / "c", threshold=np.float32(5.0), **options)
    unit = search(data, bank, unit=(np.int64(1), np.int64(1)), threshold=np.float64(5), **options)
    jfstat.write_candidates(unit, tmp_path / "unit.ecsv")
    assert as_bytes(jfstat.merge([jfstat.read_candidates(tmp_path / "unit.ecsv")])) == as_bytes(found)


@pytest.mark.slow
def test_a_table_can_be_the_bank(data, bank):
    table = search(data, bank, **OPTIONS)
    again = jfstat.search(data, table[:5], top=3, progress=False)
    assert again["twoF"][0] == pytest.approx(table["twoF"][0], rel=1e-5)
    assert again.meta["reftime"] == table.meta["reftime"]


SCRIPT = """
import sys
import jax
jax.config.update("jax_enable_x64", True)
how, out = sys.argv[1:3]
if how == "devices":
    jax.config.update("jax_num_cpu_devices", 4)
elif how != "plain":
    jax.distributed.initialize(sys.argv[3], 2, int(sys.argv[4]))
import numpy as np
import jfstat
from jax.sharding import Mesh
data_file, = sys.argv[5:]
sfts = jfstat.read_sfts(data_file)
data = jfstat.prepare(sfts, 50.0, 50.03, reftime=1167458304)
bank = jfstat.template_bank((0.1, 2.1, 0.2), [-0.2, 0.1, 0.4], f1dot=-2e-10, data=data)
mesh = None if how == "plain" else Mesh(np.array(jax.devices()).reshape(2, -1), ("a", "b"))
assert mesh is None or mesh.size == (4 if how == "devices" else 2)
if how != "disagreeing":
    checkpoint = out + ".checkpoint" if how == "processes" else None
    run = jfstat.Run(mesh=mesh, batch_size=4)
    found = jfstat.search(data, bank, top=60, progress=False, checkpoint=checkpoint, run=run)
    jfstat.write_candidates(found, out)
else:
    # memories differ, the plan must not
    from jfstat.searching.driver import memory
    from jfstat.searching.session import checkpoint as checkpoints
    first = jax.process_index() == 0
    memory.CPU_BYTES = 1 << (22 if first else 24)
    found = jfstat.search(data, bank, top=60, progress=False, run=jfstat.Run(mesh=mesh))
    jfstat.write_candidates(found, out)
    # what one process cannot do, the others hear of
    messages = []
    for checkpoint in ("/nowhere/checkpoint" if first else out + ".own", out + ".other"):
        if first:
            def refuse(*arguments):
                raise OSError("checkpoint cannot be written: the disk is full.")
            checkpoints.write_checkpoint = refuse
        try:
            run = jfstat.Run(mesh=mesh, batch_size=4)
            jfstat.search(data, bank, top=60, progress=False, checkpoint=checkpoint, run=run)
        except OSError as error:
            messages.append(str(error))
    open(out + ".messages", "w").write("\\n".join(messages))
"""


def started(*arguments, threads):
    """XLA takes its number of threads from NPROC; it must not matter.

    Programs are compiled for that number, which JAX's cache does not know: each process has to compile its own.
    """
    environment = os.environ | {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_COMPILATION_CACHE": "false", "NPROC": str(threads)}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *map(str, arguments)], env=environment, stderr=subprocess.PIPE, text=True
    )


def free_address():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{free.getsockname()[1]}"


def finished(*processes):
    for process in processes:
        _, error = process.communicate(timeout=300)
        assert process.returncode == 0, error


@pytest.fixture
def pattern(sfts, tmp_path):
    """The same data as files, for programs to read."""
    return ";".join(map(str, jfstat.write_sfts(sfts, tmp_path)))


@pytest.mark.compiled
def test_devices_and_processes_do_not_change_the_table(tmp_path, pattern):
    """One device, four virtual ones, and two processes under jax.distributed, of which each gets the whole table; on
    any number of threads."""
    finished(
        started("plain", tmp_path / "plain.ecsv", "", "", pattern, threads=1),
        started("devices", tmp_path / "devices.ecsv", "", "", pattern, threads=8),
    )
    address = free_address()
    finished(*(started("processes", tmp_path / f"process{i}.ecsv", address, i, pattern, threads=8 + i) for i in (0, 1)))
    plain = (tmp_path / "plain.ecsv").read_text()
    for name in ("devices", "process0", "process1"):
        assert (tmp_path / f"{name}.ecsv").read_text() == plain


@pytest.mark.slow
def test_processes_agree_on_one_plan_and_hear_of_each_others_errors(data, bank, tmp_path, pattern):
    address = free_address()
    finished(*(started("disagreeing", tmp_path / f"process{i}.ecsv", address, i, pattern, threads=2) for i in (0, 1)))
    found = [(tmp_path / f"process{i}.ecsv").read_text() for i in (0, 1)]
    assert found[0] == found[1]
    table, expected = jfstat.read_candidates(tmp_path / "process0.ecsv"), search(data, bank, **OPTIONS)
    np.testing.assert_allclose(table["twoF"], expected["twoF"], rtol=1e-5)
    assert table.meta["n_twoF"] == expected.meta["n_twoF"]
    said = [(tmp_path / f"process{i}.ecsv.messages").read_text().splitlines() for i in (0, 1)]
    assert said[0][0] == said[1][0]
    assert "/nowhere/checkpoint" in said[0][0]
    assert "the disk is full" in said[0][1]
    assert "another process could not write" in said[1][1]


@pytest.mark.slow
def test_the_program_under_jax_distributed_with_orbits(tmp_path):
    """JAX must join the processes before anything is computed, orbits of options as well."""
    sfts = jfstat.simulate_sfts("H1", START, 43200, 48.9, 51.2, sqrt_sx=4e-24)
    pattern = ";".join(map(str, jfstat.write_sfts(sfts, tmp_path)))
    command = [sys.executable, "-m", "jfstat", "search", f"--DataFiles={pattern}", "--Freq=50", "--FreqBand=0.02"]
    command += ["--Alpha=1", "--Delta=0.4", "--assumeSqrtSX=4e-24", "--orbitasini=0.01", "--orbitPeriod=40000"]
    command += [f"--orbitTp={START}", "--distributed", f"--coordinator={free_address()}", "--numProcesses=2"]
    environment = os.environ | {"JAX_PLATFORMS": "cpu"}
    processes = [
        subprocess.Popen(
            [*command, f"--processId={i}", f"--outputFstat={tmp_path}/found.ecsv"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for i in (0, 1)
    ]
    said = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    assert "loudest of 1000 candidates" in said[0][0]
    assert "candidates" not in said[1][0]
    assert len(jfstat.read_candidates(tmp_path / "found.ecsv")) == 1000


def test_the_plan_names_every_template_once(data, bank):
    plan = division(data, bank, batch_size=5)
    batches = plan.batches
    np.testing.assert_array_equal(np.concatenate([np.arange(a, a + n) for a, n in batches]), np.arange(33))

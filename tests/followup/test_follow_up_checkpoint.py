"""A follow-up with a checkpoint that was stopped continues, and ends in the same table."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from astropy.table import MaskedColumn, QTable
from astropy.time import Time

import jfstat
from jfstat.followup import ladder
from jfstat.followup.checkpoint import BEGINNING

START, DAY = 1_167_458_304, 86400
OPTIONS = dict(sqrt_sx=4e-24, guard=0.1, progress=False)
FIT = jfstat.Fit(["freq", "f1dot"])


@pytest.fixture(scope="module")
def sfts():
    return jfstat.simulate_sfts(["H1"], START, DAY, 59.8, 60.25, sqrt_sx=4e-24, seed=7)


@pytest.fixture(scope="module")
def found():
    """Five candidates, one of them no template, with a name, and a remark that some lack."""
    freq = np.linspace(60.0, 60.02, 5)
    columns = {"freq": freq, "f1dot": np.zeros(5), "alpha": np.full(5, 1.0), "delta": [0.5, 0.5, 0.5, 4.0, 0.5]}
    table = QTable(columns, meta={"reftime": START, "n_twoF": 10_000})
    table["name"] = ["a", "b", "c", "d", "e"]
    table["seen"] = Time(np.arange(5.0) + 60000, format="mjd")
    table["remark"] = MaskedColumn([1, 2, 3, 4, 5], mask=[0, 1, 0, 0, 1])
    return table


@pytest.fixture(scope="module")
def expected(sfts, found):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ladder, "SHARE", 2)
        return jfstat.follow_up(sfts, found, jfstat.Stages((2, 1), veto=0), FIT, **OPTIONS)


@pytest.fixture
def shares(monkeypatch):
    """Shares that are followed up, two candidates each."""
    done, climbed = [], ladder.climbed

    def counted(own, share, *others):
        done.append(share.tolist())
        return climbed(own, share, *others)

    monkeypatch.setattr(ladder, "SHARE", 2)
    monkeypatch.setattr(ladder, "climbed", counted)
    return done


def follow_up(sfts, found, path, **others):
    stages = jfstat.Stages((2, 1), veto=0)
    return jfstat.follow_up(sfts, found, stages, FIT, **{**OPTIONS, "checkpoint": path, **others})


def stopped_after(monkeypatch, number):
    """Let a follow-up stop, as by Ctrl-C, when so many shares are done."""
    climbed, calls = ladder.climbed, []

    def stopping(*arguments):
        if len(calls) == number:
            raise KeyboardInterrupt
        calls.append(1)
        return climbed(*arguments)

    monkeypatch.setattr(ladder, "climbed", stopping)


def same(table, other):
    assert table.colnames == other.colnames and dict(table.meta) == dict(other.meta)
    for name in table.colnames:
        if name == "seen":
            assert np.all(table[name] == other[name])
            continue
        assert getattr(table[name], "unit", None) == getattr(other[name], "unit", None), name
        one, two = (np.ma.asarray(getattr(x[name], "value", x[name])) for x in (table, other))
        np.testing.assert_array_equal(np.ma.getmaskarray(one), np.ma.getmaskarray(two), err_msg=name)
        one, two = (x.filled(0) if x.dtype.kind in "if" else x for x in (one, two))
        np.testing.assert_array_equal(one, two, err_msg=name)


@pytest.mark.ci
def test_a_stopped_follow_up_continues(sfts, found, expected, shares, tmp_path):
    path = tmp_path / "half done"
    with pytest.MonkeyPatch.context() as patch:
        stopped_after(patch, 1)
        with pytest.raises(KeyboardInterrupt):
            follow_up(sfts, found, path)
    assert shares == [[0, 1]]
    same(follow_up(sfts, found, path), expected)
    assert shares == [[0, 1], [2, 3], [4]]  # each once
    same(follow_up(sfts, found, path), expected)  # all from the file
    assert len(shares) == 3
    assert [x.name for x in tmp_path.iterdir()] == [path.name]


@pytest.mark.ci
def test_what_a_killed_process_left_is_cut_off(sfts, found, expected, shares, tmp_path):
    path = tmp_path / "killed"
    follow_up(sfts, found, path)
    whole = path.read_bytes()
    for end, n_left in ((len(whole) - 7, 1), (len(BEGINNING) + 3, 3), (5, 3), (0, 3)):
        path.write_bytes(whole[:end])
        before = len(shares)
        same(follow_up(sfts, found, path), expected)
        assert len(shares) - before == n_left
        assert path.read_bytes()[: len(BEGINNING)] == BEGINNING
    first = whole.index(b"PK")  # the first share's record
    for place in (-100, first + 40):
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        before = len(shares)
        same(follow_up(sfts, found, path), expected)
        assert len(shares) - before == 1  # the other two are kept
    damaged = bytearray(whole)
    damaged[len(BEGINNING) + 60] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="is damaged at its beginning: name another file"):
        follow_up(sfts, found, path)
    assert path.read_bytes() == damaged


@pytest.mark.ci
def test_checkpoints_of_other_follow_ups_are_refused(sfts, found, shares, tmp_path):
    path = tmp_path / "other"
    follow_up(sfts, found, path)
    content = path.read_bytes()
    moved = found.copy()
    moved["freq"][2] += 1e-9
    noise = jfstat.simulate_sfts(["H1"], START, DAY, 59.8, 60.25, sqrt_sx=4e-24, seed=8)
    changes = [
        (sfts, moved, {}, "the candidates"),
        (noise, found, {}, "the SFTs' samples"),
        (sfts, found, {"guard": 0.11}, r"guard \(0.1 there, 0.11 here\)"),
        (sfts, found, {"sqrt_sx": None}, "sqrt_sx"),
    ]
    for data, table, others, message in changes:
        with pytest.raises(ValueError, match=f"is of another follow-up: what differs is {message}"):
            follow_up(data, table, path, **others)
    with pytest.raises(ValueError, match="what differs is what the candidates' table says of their search"):
        tracks = QTable(found, meta={**found.meta, "statistic": "TrackPower"})
        follow_up(sfts, tracks, path)
    with pytest.raises(ValueError, match="what differs is mismatch"):
        jfstat.follow_up(
            sfts,
            found,
            jfstat.Stages((2, 1), veto=0),
            jfstat.Fit(["freq", "f1dot"], mismatch=0.5),
            checkpoint=path,
            **OPTIONS,
        )
    with pytest.raises(ValueError, match="what differs is stages"):
        jfstat.follow_up(sfts, found, jfstat.Stages((3, 1), veto=0), FIT, checkpoint=path, **OPTIONS)
    assert path.read_bytes() == content and len(shares) == 3


def test_other_files_are_left_alone(sfts, found, tmp_path):
    path = tmp_path / "thesis.txt"
    path.write_text("chapter 1")
    with pytest.raises(ValueError, match=r"thesis\.txt' is no checkpoint of a follow-up: name another file"):
        follow_up(sfts, found, path)
    assert path.read_text() == "chapter 1"
    with pytest.raises(OSError, match="cannot be written"):
        follow_up(sfts, found, tmp_path / "nowhere" / "file")
    with pytest.raises(TypeError, match="checkpoint must be the name of a file"):
        follow_up(sfts, found, 3)


@pytest.mark.ci
def test_links_and_numbers_of_numpy(sfts, found, expected, shares, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    fit = jfstat.Fit(["freq", "f1dot"], max_steps=np.int64(60), bins=np.float32(8))
    own = [jfstat.follow_up(sfts, found, jfstat.Stages((2, 1), veto=0), fit, checkpoint=tmp_path / "link", **OPTIONS)]
    own += [jfstat.follow_up(sfts, found, jfstat.Stages((2, 1), veto=0), fit, checkpoint=tmp_path / "link", **OPTIONS)]
    same(*own)
    assert len(shares) == 3 and (tmp_path / "link").is_symlink() and (tmp_path / "elsewhere").is_file()


def test_candidates_that_cannot_be_followed_up_leave_no_file(sfts, found, tmp_path):
    with pytest.raises(ValueError, match="no candidate that can be followed up"):
        follow_up(sfts, found[3:4], tmp_path / "none")
    assert not list(tmp_path.iterdir())


@pytest.mark.ci
def test_files_share_a_checkpoint(sfts, found, shares, tmp_path):
    names = jfstat.write_sfts(sfts, tmp_path)
    files = jfstat.find_sfts([str(name) for name in names])
    path = tmp_path / "state"
    stages = jfstat.Stages((2, 1), veto=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        first = jfstat.follow_up_files(files, found, stages, FIT, checkpoint=path, **OPTIONS)
        n = len(shares)
        assert n >= 2
        same(jfstat.follow_up_files(files, found, stages, FIT, checkpoint=path, **OPTIONS), first)
        with pytest.raises(ValueError, match="of another follow-up: what differs is veto"):
            jfstat.follow_up_files(files, found, (2, 1), jfstat.Fit(["freq"]), checkpoint=path, **OPTIONS)
    assert len(shares) == n

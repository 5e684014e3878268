"""Lists of lines as they are published and as people edit them: each row is a line, a comb, or an error."""

import numpy as np
import pytest

import jfstat

HEADER = "Frequency (or frequency spacing) [Hz],Type (0:line; 1:comb; 2:comb with scaling width),Frequency offset [Hz],"
HEADER += "First visible harmonic,Last visible harmonic,Left width [Hz],Right width [Hz],Comments\n"
COMMENTS = [
    "unknown",
    "2 Hz from a mains harmonic",
    "60 Hz mains",
    "odd, very",
    "1st, 2nd and 3, all",
    "",
    "½ of 120",
    "-",
]


def drawn(rng, n=8):
    """Values of rows: frequency or spacing, type, offset, first, last, left and right width; and comments."""
    rows = []
    for _ in range(n):
        kind, first = int(rng.integers(3)), int(rng.integers(1, 4))
        last = first + int(rng.integers(0, 6)) if kind else (first := 1)
        freq, offset = round(float(rng.uniform(1, 500)), 4), round(float(rng.uniform(0, 3)), 3) * int(rng.integers(2))
        left, right = (round(float(x), 5) for x in rng.uniform(0, 0.2, 2))
        rows.append((freq, kind, offset, first, last, left, right, COMMENTS[rng.integers(len(COMMENTS))]))
    return rows


def bands(rows):
    """Sorted ends of the bands of all harmonics."""
    ends = []
    for freq, kind, offset, first, last, left, right, _ in rows:
        for k in range(first, last + 1):
            f, scale = offset + k * freq, k if kind == 2 else 1
            ends.append((f - scale * left, f + scale * right))
    return np.array(sorted(ends))


def read_bands(path):
    lines = jfstat.read_lines(path, "H1")
    return np.array(sorted(zip(lines["fmin"].value, lines["fmax"].value, strict=True)))


@pytest.mark.parametrize("separator", [",", ", ", "\t", " ", "   "])
@pytest.mark.parametrize("head", ["", "% lines\n# of O2\n", "# git\n" + HEADER, "Frequency and so on\n"])
@pytest.mark.parametrize("seed", range(3))
def test_identified_lines_with_any_separator(tmp_path, separator, head, seed):
    rows = drawn(np.random.default_rng(seed))
    (tmp_path / "a").write_text(head + "".join(separator.join(map(str, row)) + "\n" for row in rows))
    np.testing.assert_allclose(read_bands(tmp_path / "a"), bands(rows), rtol=1e-13)


@pytest.mark.parametrize("seed", range(5))
def test_free_text_of_unidentified_lines_may_begin_with_a_digit(tmp_path, seed):
    rng = np.random.default_rng(seed)
    freqs = np.sort(rng.uniform(10, 2000, 8).round(3))
    comments = [COMMENTS[i] for i in rng.integers(len(COMMENTS), size=8)]
    text = "".join(f"{freq},{comment}\n" for freq, comment in zip(freqs, comments, strict=True))
    (tmp_path / "a").write_text("Frequency [Hz],Comments\n" + text)
    lines = jfstat.read_lines(tmp_path / "a", "H1")
    assert lines["freq"].value.tolist() == freqs.tolist() and list(lines["name"]) == comments


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_lists_with_a_byte_order_mark(tmp_path, encoding):
    rows = drawn(np.random.default_rng(9))
    text = HEADER + "".join(",".join(map(str, row)) + "\r\n" for row in rows)
    (tmp_path / "a").write_bytes(text.encode(encoding))
    np.testing.assert_allclose(read_bands(tmp_path / "a"), bands(rows), rtol=1e-13)


@pytest.mark.parametrize("kept", range(2, 7))
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_row_that_has_lost_fields_of_a_comb_is_an_error(tmp_path, kept, kind):
    """Never a line of no width: alone, among other combs, and among unidentified lines."""
    row = ",".join(["60.0", str(kind), "0.0", "1", "1", "0.1", "0.1"][:kept])
    for before in ("", "16.0,0,0,1,1,0.05,0.05,calibration\n", "Frequency [Hz],Comments\n10.1,unknown\n"):
        for after in ("\n", ",\n"):
            (tmp_path / "a").write_text(before + row + after)
            with pytest.raises(ValueError, match=r"has no known format|has another format than lines before it"):
                jfstat.read_lines(tmp_path / "a", "H1")


@pytest.mark.parametrize("row", ["60.0,", "60.0,mains", "60.0", "60.0 0.5 3 0.1 0.1 comb"])
def test_a_list_has_one_format(tmp_path, row):
    comb = "50.0,1,0.0,1,3,0.1,0.1,x"
    for first, second in ((comb, row), (row, comb)):
        (tmp_path / "a").write_text(f"{first}\n{second}\n")
        with pytest.raises(ValueError, match=r"a': line 2, .*, has another format than lines before it"):
            jfstat.read_lines(tmp_path / "a", "H1")


GOOD = ["60.0", "1", "0.0", "1", "3", "0.1", "0.1", "mains"]
HUGE = "9" * 400
BAD = [
    (i, word) for i in range(7) for word in ("inf", "-inf", "nan", "1e400", HUGE, "-5", "1e300", "x", "", "1_0", "１")
]


@pytest.mark.parametrize(("field", "word"), [bad for bad in BAD if bad != (2, "-5")])
def test_each_bad_value_is_a_sentence_with_its_line(tmp_path, field, word):
    row = [word if i == field else given for i, given in enumerate(GOOD)]
    (tmp_path / "a").write_text(HEADER + ",".join(GOOD) + "\n" + ",".join(row) + "\n")
    with pytest.raises(ValueError, match=r"a': (in )?line 3\b") as error:
        jfstat.read_lines(tmp_path / "a", "H1")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("50,0,0,1,5,0.1,0.1,x", "a line of type 0 has the harmonics 1 to 5"),
        ("50,0,0,3,3,0.1,0.1,x", "a line of type 0 has the harmonics 3 to 3"),
        ("50,1,0,1,1.5,0.1,0.1,x", "a comb runs from harmonic 1 to 1.5"),
        ("0,1,50,1,3,0.1,0.1,x", "a comb has the spacing 0"),
        ("-10,1,25,1,3,0.1,0.1,x", "the frequency is negative"),
        ("10,2,100,-2,3,0.1,0.1,x", "a width is negative"),
        ("99999,1,0,1,99999,0.1,0.1,x", "beyond 1e.06 Hz"),
        ("10,0,0,1,1,0.1,1e9,x", "beyond 1e.06 Hz"),
    ],
)
def test_values_that_contradict_each_other(tmp_path, row, message):
    (tmp_path / "a").write_text(row + "\n")
    with pytest.raises(ValueError, match=f"in line 1 {message}|in line 1 .*{message}"):
        jfstat.read_lines(tmp_path / "a", "H1")


@pytest.mark.parametrize("first", ["x60.0,1,0.0,1,3,0.1,0.1,mains", "mains 60 Hz", "a\nb\nFrequency"])
def test_a_damaged_first_row_is_not_taken_for_names(tmp_path, first):
    (tmp_path / "a").write_text(first + "\n" + ",".join(GOOD) + "\n")
    with pytest.raises(ValueError, match=r"a': line [12], .*has neither a line nor names of columns"):
        jfstat.read_lines(tmp_path / "a", "H1")

"""Catalogues as people have them: psrcat's and the ATNF page's tables, those of table programs, damaged ones."""

import warnings

import catalogues
import numpy as np
import pandas as pd
import pytest
from astropy.table import Table

import jfstat
from jfstat.pulsars.entries import named
from jfstat.pulsars.pulsar import pulsar_of

SEEDS = range(5)
WRITERS = {
    "short_csv": catalogues.short_csv,
    "long_csv": catalogues.long_csv,
    "page": catalogues.page,
    "long": catalogues.printed,
    "short": lambda rows: catalogues.printed(rows, long=False),
    "commas": catalogues.plain,
    "tabs": lambda rows: catalogues.plain(rows, "\t"),
    "semicolons": lambda rows: catalogues.plain(rows, ";", "*"),
    "index": lambda rows: catalogues.plain(rows, index=True),
    "blanks": lambda rows: catalogues.plain(rows, " ", "*"),
    "comment": lambda rows: "# from somewhere\n# " + catalogues.plain(rows, ",", "*"),
}


def expected(row, name="NAME"):
    entries = {key: word for key, word in row.items() if key not in ("NAME", "PSRJ", "EDOT", "DM")}
    return pulsar_of(named(entries | {"NAME": row[name]}), "")


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_program_says_the_same(tmp_path, writer, seed):
    rows = catalogues.pulsars(np.random.default_rng(seed), n=7)
    path = tmp_path / "psrcat.csv"
    path.write_text(WRITERS[writer](rows))
    assert jfstat.read_pulsars(path) == [expected(row) for row in rows]


@pytest.mark.parametrize("writer", ["long", "short", "short_csv", "long_csv"])
def test_psrcats_tables_are_recognised_in_files_of_any_name(tmp_path, writer):
    rows = catalogues.pulsars(np.random.default_rng(6))
    (tmp_path / "psrcat_output.txt").write_text(WRITERS[writer](rows))
    assert jfstat.read_pulsars(tmp_path / "psrcat_output.txt") == [expected(row) for row in rows]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_encodings_and_ends_of_lines_of_spreadsheets(tmp_path, encoding, end):
    rows = catalogues.pulsars(np.random.default_rng(7))
    (tmp_path / "a.csv").write_bytes(catalogues.plain(rows).replace("\n", end).encode(encoding))
    assert jfstat.read_pulsars(tmp_path / "a.csv") == [expected(row) for row in rows]


def test_tables_of_pandas_and_astropy(tmp_path):
    rows = catalogues.pulsars(np.random.default_rng(8))
    frame = pd.DataFrame(rows).replace("*", np.nan)
    for column in ("F0_ERR", "F0_REF", "SURVEY", "ASSOC", "NGLT", "Unnamed: 0"):
        frame[column] = "htru_low,fast" if column == "SURVEY" else "1"
    frame.to_csv(tmp_path / "a.csv")
    assert jfstat.read_pulsars(tmp_path / "a.csv") == [expected(row) for row in rows]
    columns = {name: [row[name] for row in rows] for name in catalogues.COLUMNS if name != "EDOT"}
    table = Table({name: np.ma.masked_equal(words, "*") for name, words in columns.items()})
    table["F0"] = np.array(columns["F0"], float)
    for name, unit in dict(F0="Hz", F1="1 / s2", PEPOCH="d", PB="d", A1="s", DIST="kpc", PMRA="mas / yr").items():
        table[name].unit = unit
    table.write(tmp_path / "a.ecsv")
    assert jfstat.read_pulsars(tmp_path / "a.ecsv") == [expected(row) for row in rows]
    table["F0"].unit = "mHz"
    table.write(tmp_path / "b.ecsv")
    with pytest.raises(ValueError, match=r"b\.ecsv has F0 in mHz: convert it to Hz\.$"):
        jfstat.read_pulsars(tmp_path / "b.ecsv")


ROW = dict(JNAME="J1", RAJ="01:02:03", DECJ="04:05:06", F0="50", F1="-1e-10", PEPOCH="55000")


def written(tmp_path, *rows, separator=",", name="a.csv", units=None):
    lines = [separator.join(rows[0])] + ([] if units is None else [units])
    (tmp_path / name).write_text("\n".join([*lines, *(separator.join(row.values()) for row in rows), ""]))
    return tmp_path / name


def test_rows_that_contradict_themselves_are_left_out(tmp_path):
    with pytest.raises(ValueError, match="P1 contradicts F1, of which it must be -1e-15: leave one of them out"):
        jfstat.read_pulsars(written(tmp_path, ROW | dict(F0="50.000", F1="-1e-10", P1="4e-19")))


OTHER_UNITS = [("P0", "ms", "s"), ("F0", "kHz", "Hz"), ("F1", "Hz", "Hz/s1"), ("RAJ", "deg", "hourangle")]
OTHER_UNITS += [("PEPOCH", "JD", "d"), ("PB", "s", "d"), ("PMRA", "arcsec/yr", "mas/yr"), ("DIST", "pc", "kpc")]
OTHER_UNITS += [("ECC", "deg", "a number without unit")]


@pytest.mark.parametrize(("column", "unit", "wanted"), OTHER_UNITS)
def test_other_units_are_refused(tmp_path, column, unit, wanted):
    row = ROW | {column: "1"}
    path = written(tmp_path, row, units=",".join(f"({unit})" if name == column else "" for name in row))
    with pytest.raises(ValueError, match=rf"a\.csv has {column} in \({unit}\): convert it to {wanted}\.$"):
        jfstat.read_pulsars(path)


def test_what_is_measured_counts_more_than_what_follows(tmp_path):
    derived = dict(RAJD="200", DECJD="1", ELONG="3", ELAT="4", P0="9", P1="1e-9")
    (pulsar,) = jfstat.read_pulsars(written(tmp_path, ROW | derived))
    (alone,) = jfstat.read_pulsars(written(tmp_path, ROW))
    assert pulsar == alone
    # a spin-down that stands beside the period alone, a proper motion beside ecliptic coordinates alone
    (pulsar,) = jfstat.read_pulsars(written(tmp_path, ROW | dict(F1="*", P0="0.02", P1="1e-15")))
    assert pulsar.spins == pytest.approx((50, -2.5e-12))
    ecliptic = dict(ELONG="30.1", ELAT="-20.5", PMELONG="3", PMELAT="-4")
    (pulsar,) = jfstat.read_pulsars(written(tmp_path, ROW | ecliptic))
    (alone,) = jfstat.read_pulsars(written(tmp_path, ROW | ecliptic | dict(RAJ="", DECJ="")))
    assert pulsar == alone and any(pulsar.motion)


def test_all_columns_of_psrcat_are_known_and_none_that_changes_the_phase_is_dropped(tmp_path):
    more = "BNAME PSRB PMELONG PMELAT GL GB TYPE PML PMB DIST_DM DIST_DM1 DIST1 DIST_AMN DIST_AMX DIST_A "
    more += "DMSINB ZZ XX YY ASSOC SURVEY OSURVEY DATE NGLT GLEP GLPH GLF0 GLF1 GLF0D GLTD CLK EPHEM F2 F5 "
    more += "DMEPOCH DM3 RM W50 W10 UNITS TAU_SC SI414 S400 S150G SPINDX TASC EPS1 EPS2 BINCOMP FB0 FB1 "
    more += "OMDOT OM2DOT A1DOT A12DOT ECCDOT PBDOT GAMMA T0_2 A1_3 SINI_2 SINI KOM KIN M2 M2_3 MASS_Q "
    more += "OM_ASC UPRMASS MINOMDOT MINMASS MEDMASS R_LUM R_LUM14 AGE BSURF EDOTD2 PMTOT VTRANS P1_I AGE_I "
    more += "BSURF_I B_LC ELONG ELAT RAJD DECJD P0 P1 "
    full = ROW | dict.fromkeys(more.split(), "")
    assert jfstat.read_pulsars(written(tmp_path, full)) == jfstat.read_pulsars(written(tmp_path, ROW, name="b.csv"))
    glitch = dict(GLEP="54000", GLF0="1e-6", GLF1="-1e-14")
    (pulsar,) = jfstat.read_pulsars(written(tmp_path, full | glitch))
    assert len(pulsar.glitches) == 1
    orbit = dict(BINARY="BT", PB="1.2", A1="3.4", T0="55000", ECC="0.1", OM="20")
    for name in ("OM2DOT", "A12DOT", "T0_2"):
        with pytest.raises(ValueError, match=rf"1 of 1 pulsars of .*because of J1: .*{name}"):
            jfstat.read_pulsars(written(tmp_path, full | orbit | {name: "1e-5"}))


@pytest.mark.parametrize("name", ["F1.", "F1_", "FO", "PBDOTT", "h0_limit", "F1 F2", "ＦＯ", "XYZ"])
def test_a_column_that_nobody_knows_is_refused(tmp_path, name):
    with pytest.raises(
        ValueError, match=r"a\.csv has a column '.*', which is not known: correct its name or leave it out"
    ):
        jfstat.read_pulsars(written(tmp_path, ROW | {name: "1"}))


def test_a_separator_after_the_last_cell_is_in_all_rows_or_in_none(tmp_path):
    rows = [ROW | {"JNAME": name, "PX": ""} for name in ("J1", "J2", "J3")]
    text = written(tmp_path, *rows).read_text()
    whole = jfstat.read_pulsars(tmp_path / "a.csv")
    header, *lines = text.splitlines()
    for head, end in ((header + ",", ","), (header, ","), (header + ",", "")):
        (tmp_path / "a.csv").write_text("\n".join([head, *(line + end for line in lines)]))
        assert jfstat.read_pulsars(tmp_path / "a.csv") == whole
    for head, end in ((header + ",", ","), (header, "")):
        for one in (lines[1].replace(",50,", ",50,,"), lines[1].replace(",50,", ",50")):
            (tmp_path / "a.csv").write_text("\n".join([head, lines[0] + end, one + end, lines[2] + end]))
            with pytest.raises(ValueError, match=r"line 3, has . cells for . columns"):
                jfstat.read_pulsars(tmp_path / "a.csv")


def test_names_of_psrcat_are_not_types_of_pulsars(tmp_path):
    types = ROW | {"PSR": "HE[cdt69],NRAD".replace(",", "/")}
    assert jfstat.read_pulsars(written(tmp_path, types))[0].name == "J1"
    only = {("PSR" if name == "JNAME" else name): word for name, word in ROW.items()}
    assert jfstat.read_pulsars(written(tmp_path, only))[0].name == "J1"
    assert jfstat.read_pulsars(written(tmp_path, ROW | {"NAME": "*"}))[0].name == "J1"


HEAD = b"JNAME,RAJ,DECJ,F0,PEPOCH\n"
GOOD = b"J1,01:02:03,04:05:06,50,55000\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "does not begin with names of columns"),
        (b"\r\n", "does not begin with names of columns"),
        (b"\n\n# a comment\n", "does not begin with names of columns"),
        (GOOD, "does not begin with names of columns"),
        (GOOD + HEAD, "does not begin with names of columns"),
        (HEAD, "names columns and holds no pulsar"),
        (b"#;NAME;F0;\n;;(Hz);\n", "names columns and holds no pulsar"),
        (HEAD + GOOD[:-7] + b"\n", "line 2, has 4 cells for 5 columns"),
        (HEAD + GOOD[:-1] + b",1\n", "line 2, has 6 cells for 5 columns"),
        (HEAD + b'"J1,01:02:03,04:05:06,50,55000\n' + GOOD, "line 2, is not a row of cells"),
        (b"JNAME,RAJ,DECJ,F0,F0,PEPOCH\n" + GOOD.replace(b"50,", b"50,50,"), "has two columns for F0"),
        (b"JNAME,RAJ,RA,DECJ,F0,PEPOCH\n" + GOOD.replace(b"03,", b"03,3,"), "has two columns for RAJ"),
        (HEAD + GOOD.replace(b"J1", b"\xa3"), "is not text in UTF-8: save it in this encoding"),
        ((HEAD + GOOD).decode().encode("utf-16-le"), "is not text in UTF-8"),
        (bytes(range(256)), "is not text in UTF-8"),
        (HEAD + GOOD.replace(b"J1", b"*"), r"row 1 has no name \(line 2\)"),
        (HEAD + GOOD.replace(b"55000", b"55" + 400 * b"9"), "1 of 1 pulsars .*PEPOCH"),
        (HEAD + GOOD.replace(b"55000", b"551e400001"), "1 of 1 pulsars .*PEPOCH"),
        (HEAD + GOOD.replace(b",50,", b",5e400,"), "1 of 1 pulsars .*F0"),
        (b"NAME RAJ DECJ F0 PEPOCH\nJ1 01:02:03 04:05:06 50\n", "line 2, has no word under"),
        (b"<html><body>An error occurred.</body></html>\n", "is a web page without a table"),
    ],
)
@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".ecsv"])
def test_each_fault_is_a_sentence(tmp_path, content, message, suffix):
    path = tmp_path / f"a{suffix}"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as error:
        jfstat.read_pulsars(path)
    assert "\n" not in str(error.value) and str(path) in str(error.value)


def test_rows_that_are_left_out_are_counted(tmp_path):
    rows = catalogues.pulsars(np.random.default_rng(9), n=6)
    rows[2]["PEPOCH"], rows[4]["F0"] = "*", "fifty"
    (tmp_path / "a.csv").write_text(catalogues.long_csv(rows))
    with pytest.warns(
        UserWarning, match=r"2 of 6 pulsars of .* cannot be used, the first \(line 5\) because of "
    ) as said:
        found = jfstat.read_pulsars(tmp_path / "a.csv")
    assert len(said) == 1 and rows[2]["NAME"] in str(said[0].message)
    assert found == [expected(row) for i, row in enumerate(rows) if i not in (2, 4)]


def test_a_par_file_is_no_catalogue_whatever_its_name(tmp_path):
    text = "#----------------\n# PSR and F0 of a fit\n" + "".join(f"{name} {word}\n" for name, word in ROW.items())
    (tmp_path / "J1.txt").write_text(text.replace("JNAME", "PSRJ"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert jfstat.read_pulsars(tmp_path / "J1.txt")[0].name == "J1"

"""The paper for the Journal of Open Source Software has what the journal asks for, and nothing that leads nowhere."""

import re
from datetime import datetime
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "packaging" / "joss"
HEADER, BODY = (FOLDER / "paper.md").read_text().split("---\n", 2)[1:]
SECTIONS = [
    "Summary",
    "Statement of need",
    "State of the field",
    "Software design",
    "Research impact statement",
    "AI usage disclosure",
    "Acknowledgements",
    "References",
]
"""As the journal asks for since 2026."""


def test_the_header_is_the_journals():
    header = pytest.importorskip("yaml").safe_load(HEADER)
    assert "jfstat" in header["title"] and "`" not in header["title"]
    assert len(header["tags"]) >= 3 and all(author["name"] for author in header["authors"])
    assert header["bibliography"] == "paper.bib"
    datetime.strptime(header["date"], "%d %B %Y")


def test_it_has_the_sections_each_with_a_text():
    parts = re.split(r"^# (.*)\n", BODY, flags=re.M)[1:]
    assert parts[::2] == SECTIONS
    assert all(len(text.split()) > 30 for text in parts[1:-1:2])


def test_it_is_as_long_as_the_journal_likes():
    text = re.sub(r"<!--.*?-->|!\[.*?\]\(.*?\)\{.*?\}", "", BODY, flags=re.S)
    assert 750 <= len(text.split()) <= 1750


def test_citations_and_references_are_the_same():
    entries = re.findall(r"^@\w+\{(.*?),\n(.*?)^\}", (FOLDER / "paper.bib").read_text(), re.M | re.S)
    cited = set(re.findall(r"@(\w+:\d{4})", BODY))
    assert cited == {key for key, _ in entries} and len(cited) == len(entries)
    for key, fields in entries:
        assert {"author", "title", "year"} <= set(re.findall(r"^  (\w+) =", fields, re.M)), key
        assert re.search(r"^  (doi = \{10\.\d+/|url = \{https://)", fields, re.M), key


def test_figures_and_files_are_there_and_figures_are_spoken_of():
    figures = re.findall(r"^!\[(?:.|\n)*?\\label\{(.*?)\}\]\((.*?)\)", BODY, re.M)
    assert figures
    for label, path in figures:
        assert (FOLDER / path).is_file()
        assert f"\\autoref{{{label}}}" in BODY
    named = [name for name in re.findall(r"`([\w/.]+)`", BODY) if "/" in name]
    assert named and all((FOLDER.parents[1] / name).is_file() for name in named)

"""The documentation is whole: every public name has its place, every link its target, every example its result."""

import doctest
import json
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest

import jfstat

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
NAVIGATION = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
WITHOUT_EXAMPLE = {
    "AmplitudeEstimate",
    "AtomSizes",
    "Atoms",
    "AmplitudePosterior",
    "Coordinates",
    "Cosine",
    "DualHarmonicPosterior",
    "EllipticityLikelihoods",
    "Ephemeris",
    "Exponential",
    "FermiDirac",
    "Fstat",
    "FstatData",
    "Gating",
    "HalfNormal",
    "LogUniform",
    "MeanTwoF",
    "Model",
    "NarrowData",
    "NarrowSizes",
    "NoiseEnergy",
    "Normal",
    "NullDistribution",
    "NormalisedPower",
    "NormalisedSFTs",
    "Observation",
    "PathPosterior",
    "PhaseModel",
    "PolarisationFstat",
    "PosteriorDensity",
    "Pulsar",
    "PulsarPosteriors",
    "SFTFiles",
    "SFTs",
    "SearchPlan",
    "SearchStopped",
    "SemicoherentAmplitude",
    "SemicoherentFstat",
    "TimingErrors",
    "Track",
    "TransientMap",
    "TransientRange",
    "TwoF",
    "Uniform",
    "TransientUpperLimit",
    "PathUpperLimit",
    "UpperLimit",
    "ViterbiPath",
    "bank_from_table",
    "clean",
    "distinct",
    "each_sft",
    "find_strain",
    "flag_lines",
    "follow_up",
    "follow_up_files",
    "follow_up_stages",
    "fstat_table_files",
    "last_stage",
    "line_veto",
    "log_likelihood_by_segment",
    "merge",
    "public_description",
    "pulsar_posteriors",
    "read_atoms",
    "read_candidates",
    "read_frame_cache",
    "read_lines",
    "read_par",
    "read_pulsars",
    "read_segments",
    "read_templates",
    "read_timestamps",
    "refine",
    "refine_files",
    "search_pulsars",
    "search_template",
    "segment_observations",
    "semicoherent_amplitude",
    "sfts_from_frames",
    "split_sfts",
    "to_bilby",
    "transient_map",
    "viterbi_null",
    "windowed",
    "write_atoms",
    "write_atoms_files",
    "write_transient_maps",
    "write_transient_maps_files",
    "write_candidates",
    "write_loudest",
    "write_psd",
    "write_transient_stats",
}
"""Public names that have no runnable example yet; those of results are shown by what returns them."""
COMPILE_LITTLE = {
    "Braking",
    "Conditioning",
    "DataQuality",
    "Fit",
    "Noise",
    "PulsarBand",
    "Stages",
    "find_sfts",
    "Amplitude",
    "Detector",
    "Doppler",
    "GPSTime",
    "Orbit",
    "Population",
    "TransientWindow",
    "detection_probability",
    "fstat",
    "inject",
    "join_sfts",
    "observation",
    "predict_twoF",
    "prepare",
    "psd",
    "read_sfts",
    "sfts_from_strain",
    "simulate_sfts",
    "spectrogram",
    "twoF",
    "twoF_band",
    "validate_sfts",
    "write_sfts",
}
"""Names whose examples run in every test run; the others wait for the compiler, and run in CI."""


def documented():
    return [
        name
        for page in (DOCS / "api").glob("*.md")
        for name in re.findall(r"^::: jfstat\.(\w+)", page.read_text(), re.M)
    ]


def test_every_public_name_has_one_place_among_the_pages():
    assert sorted(documented()) == sorted([*jfstat.__all__, "plots"])


def test_every_public_name_says_what_it_is():
    pictures = [value for name, value in vars(jfstat.plots).items() if name.startswith("plot_")]
    for value in (*(getattr(jfstat, name) for name in jfstat.__all__), *pictures):
        assert (value.__doc__ or "").strip(), value


def test_every_page_and_notebook_is_in_the_navigation():
    listed = set(re.findall(r"[\w/]+\.(?:md|ipynb)", NAVIGATION))
    pages = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}
    notebooks = {f"notebooks/{page.name}" for page in (ROOT / "notebooks").glob("*.ipynb")}
    assert listed == pages | notebooks | {"index.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md"}


def anchors(page):
    """The names of a page's headings in links, as Python-Markdown makes them."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.S)
    headings = re.findall(r"^#+ (.*)", text, re.M)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_no_link_is_dead(page):
    text = re.sub(r"```.*?```|`[^`]*`", "", page.read_text(), flags=re.S)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"https?://|mailto:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert target.is_relative_to(ROOT), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_links_in_notebooks_have_targets_here_and_on_the_site(path):
    text = "".join(
        "".join(cell["source"]) for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "markdown"
    )
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if not link.startswith("https://")]
    for link in links:
        name, _, anchor = link.partition("#")
        target = (path.parent / name).resolve()
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link

    pytest.importorskip("mkdocs")
    sys.path.insert(0, str(DOCS))
    try:
        from sitefiles import on_post_page
    finally:
        sys.path.remove(str(DOCS))
    page: Any = SimpleNamespace(file=SimpleNamespace(src_uri=f"notebooks/{path.name}"))
    shown = on_post_page("".join(f'<a href="{link}">' for link in links), page, None)  # type: ignore[arg-type]
    assert ".md" not in shown and ".ipynb" not in shown and "../docs/" not in shown
    assert shown.count(".html") == len(links)


def test_only_notebooks_are_read_as_notebooks(monkeypatch):
    """Pages would be converted, too, to see what they are: by pandoc, where it is, for many minutes."""
    jupytext = pytest.importorskip("jupytext")
    pytest.importorskip("mkdocs_jupyter")
    from mkdocs.config import load_config

    monkeypatch.setattr(jupytext, "read", lambda path: pytest.fail(f"{path} is read as a notebook"))
    monkeypatch.setenv("NO_MKDOCS_2_WARNING", "1")
    plugin = load_config(str(ROOT / "mkdocs.yml")).plugins["mkdocs-jupyter"]
    paths = [*PAGES, *DOCS.rglob("*.py"), *(ROOT / "notebooks").glob("*.ipynb")]
    read = [path for path in paths if plugin.should_include(SimpleNamespace(abs_src_path=str(path)))]
    assert read == [path for path in paths if path.suffix == ".ipynb"]


@pytest.fixture(scope="module")
def beginning():
    """The names with which the API's examples begin."""
    (block,) = re.findall(r"```python\n(.*?)```", (DOCS / "api" / "index.md").read_text(), re.S)
    names: dict = {}
    exec(compile(block, "api/index.md", "exec"), names)
    return names


def examples(name):
    """The doctests of a public name; a class's methods have theirs in it."""
    value = getattr(jfstat, name)
    found = doctest.DocTestParser().get_doctest(value.__doc__ or "", {}, name, None, None)
    return found if found.examples else None


@pytest.mark.parametrize(
    "name",
    [
        # LALSuite compresses frames for a quarter of a minute
        name
        if name in COMPILE_LITTLE
        else pytest.param(name, marks=getattr(pytest.mark, "slow" if name == "write_frames" else "ci"))
        for name in jfstat.__all__
        if examples(name)
    ],
)
def test_the_example_runs(name, beginning, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    test = examples(name)
    test.globs = dict(beginning)
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    with jax.numpy_dtype_promotion("standard"), np.printoptions(legacy=False):
        # untold, doctest prints what it does if pytest was started with -v
        doctest.DocTestRunner(verbose=False, optionflags=flags).run(test, out=said.append)
    assert not said, "".join(said)


def test_names_without_an_example_are_known():
    assert {name for name in jfstat.__all__ if not examples(name)} == WITHOUT_EXAMPLE

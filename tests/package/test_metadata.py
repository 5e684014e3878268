"""What is said of jfstat in several files is the same in all of them: version, licence, what it needs."""

import hashlib
import importlib.util
import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

import jfstat

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGING = ROOT / "packaging"
CONDA_NAMES = {"astropy": "astropy-base", "matplotlib": "matplotlib-base"}
"""Packages that conda-forge has in two parts, of which jfstat needs the smaller one."""


def program(path):
    """A program of packaging/ as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_yaml(text):
    return pytest.importorskip("yaml").safe_load(text)


def test_the_version_is_that_of_the_package():
    assert "version" in PROJECT["project"]["dynamic"]
    assert PROJECT["tool"]["hatch"]["version"] == {"path": "jfstat/version.py"}
    citation = read_yaml((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == jfstat.__version__
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings[:2] == ["Unreleased", f"{jfstat.__version__} ({citation['date-released']})"]


def test_the_citation_says_what_the_project_says():
    citation = read_yaml((ROOT / "CITATION.cff").read_text())
    project = PROJECT["project"]
    assert citation["license"] == project["license"]
    assert citation["keywords"] == project["keywords"]
    assert citation["authors"] == project["authors"]


def test_codemeta_is_what_its_program_writes():
    pytest.importorskip("yaml")
    written = program(PACKAGING / "codemeta.py").text()
    assert (ROOT / "codemeta.json").read_text() == written, "run python packaging/codemeta.py"
    described = json.loads(written)
    assert described["version"] == jfstat.__version__
    named = {one["name"]: SpecifierSet(one["version"]) for one in described["softwareRequirements"]}
    assert named == {one.name: one.specifier for one in map(Requirement, PROJECT["project"]["dependencies"])}


@pytest.fixture(scope="module")
def recipe():
    return read_yaml((PACKAGING / "conda" / "recipe.yaml").read_text())


def test_the_recipe_has_the_version_and_lowest_python(recipe):
    assert recipe["schema_version"] == 1
    assert recipe["context"]["version"] == jfstat.__version__
    assert PROJECT["project"]["requires-python"] == f">={recipe['context']['python_min']}"
    assert recipe["requirements"]["host"][0] == "python ${{ python_min }}.*"
    assert recipe["requirements"]["run"][0] == "python >=${{ python_min }}"


def conda_requirements(lines):
    """Names of packages and the versions that a recipe asks for."""
    return {name: SpecifierSet(versions) for name, _, versions in (line.partition(" ") for line in lines)}


def python_requirements(lines):
    """The same of pyproject.toml, with conda-forge's names."""
    parsed = [Requirement(line) for line in lines]
    return {CONDA_NAMES.get(one.name, one.name): one.specifier for one in parsed}


def test_the_recipe_needs_what_the_project_needs(recipe):
    needed = conda_requirements(line for line in recipe["requirements"]["run"] if not line.startswith("python "))
    assert needed == python_requirements(PROJECT["project"]["dependencies"])
    assert "0.10.2" not in needed["jax"] and "0.10.1" in needed["jax"]


def test_the_recipe_builds_with_the_projects_backend(recipe):
    host = conda_requirements(line for line in recipe["requirements"]["host"] if not line.startswith("python "))
    assert host == {"pip": SpecifierSet(), **python_requirements(PROJECT["build-system"]["requires"])}


def test_the_recipe_has_the_program_and_the_licence(recipe):
    scripts = [f"{name} = {target}" for name, target in PROJECT["project"]["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert recipe["build"]["noarch"] == "python"
    assert recipe["about"]["license"] == PROJECT["project"]["license"]
    assert [recipe["about"]["license_file"]] == PROJECT["project"]["license-files"]


def test_the_recipe_to_submit_has_the_files_address_and_checksum(recipe, tmp_path):
    sdist = tmp_path / "jfstat-0.1.0.tar.gz"
    sdist.write_bytes(b"content")
    address = "https://example.org/jfstat-0.1.0.tar.gz"
    written = read_yaml(program(PACKAGING / "conda" / "for_conda_forge.py").recipe(sdist, address))
    assert written.pop("source") == {"url": address, "sha256": hashlib.sha256(b"content").hexdigest()}
    assert written == {name: value for name, value in recipe.items() if name != "source"}


LOCKS = PACKAGING / "locks"
PYTHONS = ["3.11", "3.12", "3.13", "3.14"]
SYSTEMS = {"Linux": ("linux", "x86_64"), "Darwin": ("darwin", "arm64"), "Windows": ("win32", "AMD64")}


def wanted(lock):
    """The requirements that a lock was made of."""
    project = PROJECT["project"]
    if lock == "release":
        return [
            Requirement(line) for line in (LOCKS / "release.in").read_text().splitlines() if not line.startswith("#")
        ]
    extras = {"run": [], "test": ["test"], "dev": ["test", "docs", "dev"]}[lock]
    lines = [*project["dependencies"], *(line for name in extras for line in project["optional-dependencies"][name])]
    return [one for one in map(Requirement, lines) if one.name != "jfstat"]


def locked(lock, environment):
    """The versions that a lock gives to one Python on one system."""
    text = (LOCKS / f"{lock}.txt").read_text().replace("\\\n", " ")
    lines = [line.split(" --hash")[0] for line in text.splitlines() if line and not line.startswith("#")]
    applying = [one for one in map(Requirement, lines) if one.marker is None or one.marker.evaluate(environment)]
    versions = {canonicalize_name(one.name): str(one.specifier).removeprefix("==") for one in applying}
    assert len(versions) == len(applying)
    return versions


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("lock", ["run", "test", "dev", "release"])
def test_each_lock_holds_what_is_needed_in_allowed_versions(lock, python, system):
    platform, machine = SYSTEMS[system]
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "platform_system": system,
        "sys_platform": platform,
        "platform_machine": machine,
    }
    versions = locked(lock, environment)
    for one in wanted(lock):
        if one.marker is None or one.marker.evaluate(environment):
            assert one.specifier.contains(versions[canonicalize_name(one.name)]), one


def test_the_locks_name_hashes_and_no_hosts():
    for lock in ("run", "test", "dev", "release"):
        text = (LOCKS / f"{lock}.txt").read_text()
        assert "://" not in text and "index" not in text.split("\nabsl", 1)[0]
        entries = [part for part in text.split("\n") if re.match(r"\w.*==", part)]
        assert len(entries) > 20 and all(entry.endswith("\\") for entry in entries)
        assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}", text)) >= len(entries)


def test_all_locks_have_one_version_of_each_package():
    for python in PYTHONS:
        environment = {"python_version": python, "python_full_version": f"{python}.0"}
        everything = locked("dev", environment)
        for lock in ("run", "test"):
            assert locked(lock, environment).items() <= everything.items()

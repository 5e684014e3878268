"""docs/architecture.md is what the imports say, and they run one way."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


architecture, house = loaded("architecture"), loaded("house")


@pytest.mark.ci
def test_the_page_is_up_to_date_and_imports_run_one_way():
    done = subprocess.run(
        [sys.executable, DOCS / "architecture.py", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


ORDER = ("maths", "data", "search")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, None),
        ({"data.noise": {"search"}}, "data.noise imports search, which stands above it."),
        ({"maths": {"data.noise"}}, "maths imports data.noise, which stands above it."),
        ({"maths.turns": set(), "maths": {"maths.turns"}, "plots": set()}, "plots is not in ORDER"),
        ({"data.band": {"data.noise"}, "data.noise": {"data.band"}}, "imports run in a circle: data."),
    ],
)
def test_what_is_wrong_is_found(change, message):
    graph = {"maths": set(), "data.noise": {"maths"}, "data.band": {"data.noise"}, "search": {"data.band"}} | change
    problems = architecture.order_problems(graph, ORDER, set())
    if message is None:
        assert problems == []
    else:
        assert any(problem.startswith(message) for problem in problems), problems


def test_exceptions_are_for_what_is_still_wrong():
    wrong = {"maths": set(), "data.noise": {"search"}, "search": {"data.noise"}}
    assert architecture.order_problems(wrong, ORDER, {("data.noise", "search")}) == []
    right = wrong | {"data.noise": set()}
    (problem,) = architecture.order_problems(right, ORDER, {("data.noise", "search")})
    assert problem == "data.noise no longer imports search: remove it from EXCEPTIONS."


def test_maths_imports_nothing_else():
    graph = {"atomic": set(), "maths.turns": {"atomic"}}
    assert architecture.order_problems(graph, ("atomic", "maths"), set()) == [
        "maths.turns imports atomic: maths stands alone."
    ]


def test_imports_in_functions_and_for_type_checkers_count():
    tree = ast.parse(
        "from __future__ import annotations\nimport numpy\nfrom jfstat.data.noise import floor\n"
        "if TYPE_CHECKING:\n    from jfstat.search import search\nelse:\n    import jfstat.maths\n"
        "def f():\n    from jfstat.data import band\n    from jfstat import __version__\n"
    )
    modules = ["data", "data.noise", "data.band", "search", "maths", "jfstat"]
    assert architecture.imported("plots", tree, modules) == {"data.noise", "data.band", "search", "maths", "jfstat"}


def test_functions_that_do_not_exist_are_found():
    trees = {"data": ast.parse(""), "data.noise": ast.parse("class Floor:\n    def psd(self): pass\ndef mean(): pass")}
    text = "`data.noise.Floor`, `data.noise.Floor.psd`, `data.noise.mean`, `data.noise.Floor.x`, `data.mean`, `y.x`"
    assert architecture.missing_names(trees, text) == ["data.noise.Floor.x", "data.mean", "y.x"]


def test_functions_with_many_parameters_are_listed():
    trees = {"data": ast.parse("class A:\n    def f(self, a, b, *, c): pass\ndef g(a, b, c, d): pass\n")}
    assert architecture.many_parameters(trees, 2) == {"data.f": 3, "data.g": 4}
    (new, old) = architecture.parameter_problems(trees, {"data.g": "promised", "data.h": "once"}, 2)
    assert new.startswith("data.f has 3 parameters: give it at most 2")
    assert old == "data.h has no more than 2 parameters: remove it from LISTED."
    assert architecture.parameter_problems(trees, {"data.g": "promised"}, 3) == []


def test_the_figures_of_a_small_package(tmp_path):
    (tmp_path / "jfstat").mkdir()
    (tmp_path / "jfstat" / "__init__.py").write_text('"""From a to b."""\n__all__ = ["f", "C"]\n')
    (tmp_path / "jfstat" / "_hidden.py").write_text("def g(x: Any) -> Any: pass\n")
    (tmp_path / "jfstat" / "open.py").write_text(
        "class C:\n    x: Any\n    _y: Any\n    def f(self, a, b, c, d, e, f: list[Any]) -> int:\n        '''Two\n"
        "        lines.'''\n        return 1\n    def _g(self, a: Any, b, c, d, e, f, *g): pass\n"
    )
    assert house.figures(tmp_path) == {
        "modules": "3",
        "lines": "11",
        "functions and methods": "3",
        "longest function": "f, 4 lines",
        "longest function without its docstring": "f, 2 lines",
        "public names": "2",
        "functions with more than 6 parameters": "1",
        "public ones of those": "0",
        "Any in public signatures": "2",
        "Any in all annotations": "6",
        "modules that begin 'From '": "1",
    }

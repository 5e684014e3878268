"""Write architecture.md: the packages of jfstat and what imports what, read from the source; and check their order.

`python docs/architecture.py` writes the page, `python docs/architecture.py --check` only says what is wrong: an import
against the order, a cycle, a function that the page names and that does not exist, a page that is out of date (numbers
of lines apart).
Standard library only; tests/docs/test_architecture.py runs it.
"""

from __future__ import annotations

import ast
import graphlib
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"

ORDER = (
    "maths",
    "files",
    "atomic",
    "version",
    "processor",
    "collecting",
    "diskcache",
    "tracecache",
    "compileroptions",
    "validation",
    "display",
    "public",
    "kinds",
    "compilecache",
    "signal",
    "geometry",
    "transforms",
    "sfts",
    "simulate",
    "strain",
    "pulsars",
    "data",
    "lines",
    "statistic",
    "engines",
    "limits",
    "reference",
    "metrics",
    "banks",
    "candidates",
    "io",
    "tracking",
    "searching",
    "inference",
    "followup",
    "exporting",
    "plots",
    "benchmarking",
    "jfstat",
    "commandline",
    "__main__",
)
"""Packages and single modules of jfstat/, low to high: each imports only those before it; "jfstat" is __init__.py."""

EXCEPTIONS: set[tuple[str, str]] = set()
"""Imports against the order that are still to be removed, (module, imported module)."""

TEMPLATE = """\
# Architecture

Written by `python docs/architecture.py`, from the source. A package imports only what stands below it, and
modules never import each other in a circle; imports for annotations alone count too.

{drawing}

An arrow means "imports". An import is not drawn if the package is reached through others; the table lists all. Lines
were counted when this page was last written.

{table}
{exceptions}
## What each package makes of what

    sfts        SFT files -> SFTs, and back
    geometry    ephemerides, detectors -> delays, orbits, antenna patterns
    simulate    signals, noise, strain -> SFTs
    data        SFTs -> noise weights -> wide series -> band series, interpolation filters; segments; narrow data
    statistic   (band series, template) -> timing per block -> resampled series -> FFT -> 2F
    engines   (band series, batch of templates) -> loudest values: XLA anywhere, kernels on NVIDIA GPUs
    pulsars     timing solutions of known pulsars -> templates
    lines       lists of known lines -> frequencies that they affect; SFTs without them
    banks       banks of templates: products of ranges, lattices over regions of the sky, spin-down and orbits
    tracking    tables of 2F by segment -> best paths, posteriors, false alarms
    limits      (data, population of signals) -> detection probability, upper limits
    io          tables of candidates, templates, atoms, segments -> files, LALSuite's too; and back
    searching   (band series, bank of templates) -> candidates; stopping, resuming, dividing
    followup    candidates -> narrow data, metric, gradients -> refined candidates with errors
    benchmarking   settings -> times (beside LALSuite's: examples/benchmarks)
    commandline the same from a shell
    reference.py   2F the slow and obvious way; the tests hold everything else against it

## Three ways through the packages

**A template**: `signal.templates.Doppler`, checked by `data.checks.check_point`, becomes a `geometry.source.Source` \
of the data's `data.observation.Observation`; for one frequency `statistic.fstat.twoF`: phases, antenna patterns and \
sums over the samples in `data.direct.detector_sums`; for all frequencies `engines.band.twoF_band`: \
`statistic.resample.timing`, `statistic.resample.interpolated`, `statistic.spectrum.spectra`; then \
`statistic.combine.two_f`.

**An SFT**: `sfts.reading.read_sfts`: `sfts.patterns.find_files`, `sfts.headers.scan_file`, `sfts.layout.arrange`, \
`sfts.blocks.read_batches`; then `data.prepare.prepare`: cut into segments by `data.segments.segments_of`, sizes from \
`data.plan.plan_bands`, noise floor in `data.noise.NoiseFloor`, times and weights in `data.observation.observed`, one \
series per detector in `data.series.heterodyned_series`, cut to the band in `data.band.decimated_spectrum`, filtered \
for interpolation in `data.band.filtered_series`; the result is a `data.fstatdata.FstatData`.

**A candidate**: `searching.search.search`: `searching.plan.plan_search`, whose `searching.statistic.Statistic` \
divides the work (`searching.division.Division`); the largest values of each batch from \
`searching.reduce.loudest.loudest` by a `engines.engine.Reduction`, joined in `searching.reduce.toplist.Toplist`; \
columns by the statistic, `candidates.clusters.clustered` and `searching.result.result_table`; then \
`followup.refine.refine`: rows read by `followup.candidates.read_rows`, data narrowed by `followup.focus.focus`, \
starts found by `followup.look.look`, peaks by `followup.climb.climb` with `maths.newton.climbed`, values there by \
`followup.peakvalues.measure`, described by `followup.peak.describe`, and written up in \
`followup.results.results_table`.

## Functions with more than {most} parameters

What is passed on together is one object: what is fitted (`followup.options.Fit`), the noise floor \
(`data.noise.Noise`), the prior of lines (`statistic.linerobust.LinePrior`). These functions have more all the same:

{listed}"""


MOST_PARAMETERS = 8
"""Functions with more are listed on the page, with a reason."""
LISTED = {
    "banks.template_bank.bank_size": "those of `template_bank`",
    "banks.template_bank.template_bank": "each is a property of the templates by itself: position, spin-downs, orbit, "
    "times, band, spacing",
    "data.observation.observation": "promised names: SFTs, or detectors with start and duration or with timestamps",
    "data.prepare.prepare": "promised names, eight of them; the others are independent of each other and rarely given",
    "followup.fromfiles.follow_up_files": "the arguments of `follow_up`",
    "followup.ladder.follow_up": "what `prepare` takes, and a checkpoint and progress as `search` has them",
    "followup.fromfiles.fstat_table_files": "what is computed at templates, and what `prepare` takes",
    "searching.plan.plan_search": "the arguments of `search`",
    "searching.search.search": "promised names; the rest are objects",
    "sfts.split.split_sfts": "what `read_sfts` takes to choose SFTs and what `write_sfts` takes, around one width",
    "simulate.simulate.simulate_sfts": "promised names, all of them",
    "searching.driver.processes._step": "a program of the search, to be divided",
    "searching.reduce.loudest.loudest_program": "a program of the search, to be divided",
    "searching.reduce.loudest.loudest_within": "a program of the search, to be divided",
}
"""Functions that have more than `MOST_PARAMETERS`, and why."""


def read_modules(root: Path = ROOT) -> dict[str, ast.Module]:
    """Syntax trees of all modules by name without the leading "jfstat.", as in "statistic.fstat"; "jfstat" itself."""
    trees = {}
    for path in sorted((root / "jfstat").rglob("*.py")):
        parts = path.relative_to(root / "jfstat").with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        trees[".".join(parts) or "jfstat"] = ast.parse(path.read_text(encoding="utf-8"))
    return trees


def node_of(module: str) -> str:
    """The package, or single module of jfstat/, that a module belongs to."""
    return module.partition(".")[0]


def imported(module: str, tree: ast.Module, modules: Iterable[str]) -> set[str]:
    """Modules of jfstat that a module imports, in functions and for annotations alone as well."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{module} has a relative import in line {node.lineno}: name the module in full.")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    found = set()
    for name in names:
        if name.partition(".")[0] != "jfstat":
            continue
        name = name.removeprefix("jfstat").removeprefix(".")
        while name and name not in modules:  # what is imported from a module is no module
            name = name.rpartition(".")[0]
        found.add(name or "jfstat")
    return found - {module}


def many_parameters(trees: Mapping[str, ast.Module], most: int = MOST_PARAMETERS) -> dict[str, int]:
    """Functions and methods with more than so many parameters, self apart, by module and name; how many each has."""
    found = {}
    for module, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names = [x.arg for x in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
                count = len(names) - (names[:1] in (["self"], ["cls"]))
                if count > most:
                    found[f"{module}.{node.name}"] = count
    return found


def parameter_problems(
    trees: Mapping[str, ast.Module], listed: Mapping[str, str] = LISTED, most: int = MOST_PARAMETERS
) -> list[str]:
    """What is wrong with the list of functions with many parameters, a sentence each."""
    found = many_parameters(trees, most)
    problems = [
        f"{name} has {found[name]} parameters: give it at most {most}, by objects that stand for one idea each, or "
        "list it in LISTED with a reason."
        for name in sorted(set(found) - set(listed))
    ]
    return problems + [
        f"{name} has no more than {most} parameters: remove it from LISTED."
        for name in sorted(set(listed) - set(found))
    ]


def listed_functions(trees: Mapping[str, ast.Module], listed: Mapping[str, str] = LISTED) -> str:
    """The functions with many parameters as a table."""
    counts = many_parameters(trees)
    rows = [f"| `{name}` | {counts[name]} | {reason} |" for name, reason in sorted(listed.items()) if name in counts]
    return "\n".join(["| function | parameters | why |", "|---|---:|---|", *rows]) + "\n"


def cycle_in(graph: Mapping[str, set[str]]) -> list[str]:
    """Modules that import each other in a circle; none if there is no such circle."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return list(reversed(error.args[1]))
    return []


def between_packages(graph: Mapping[str, set[str]], exceptions: Iterable[tuple[str, str]] = ()) -> dict[str, set[str]]:
    """Which packages each package imports, leaving out the given imports."""
    packages: dict[str, set[str]] = {}
    for module, others in graph.items():
        own = packages.setdefault(node_of(module), set())
        own |= {node_of(other) for other in others if (module, other) not in exceptions} - {node_of(module)}
    return packages


def order_problems(
    graph: Mapping[str, set[str]],
    order: tuple[str, ...] = ORDER,
    exceptions: frozenset[tuple[str, str]] | set[tuple[str, str]] = frozenset(EXCEPTIONS),
) -> list[str]:
    """What is wrong with the imports, a sentence each."""
    nodes = {node_of(module) for module in graph}
    problems = [f"{name} is not in ORDER: say where it stands." for name in sorted(nodes - set(order))]
    problems += [f"{name} is in ORDER and not in jfstat/: remove it." for name in order if name not in nodes]
    if problems:
        return problems
    wrong = set()
    for module, others in graph.items():
        wrong |= {(module, other) for other in others if order.index(node_of(other)) > order.index(node_of(module))}
    problems += [f"{a} imports {b}, which stands above it." for a, b in sorted(wrong - exceptions)]
    problems += [f"{a} no longer imports {b}: remove it from EXCEPTIONS." for a, b in sorted(exceptions - wrong)]
    for module, others in sorted(graph.items()):
        foreign = sorted(other for other in others if node_of(module) == "maths" and node_of(other) != "maths")
        problems += [f"{module} imports {other}: maths stands alone." for other in foreign]
    allowed = {module: {x for x in others if (module, x) not in exceptions} for module, others in graph.items()}
    for what in (allowed, between_packages(graph, exceptions)):
        if circle := cycle_in(what):
            problems.append(f"imports run in a circle: {' -> '.join(circle)}.")
    return problems


def defines(tree: ast.Module, names: list[str]) -> bool:
    """Whether a module defines a function or class, or a class a method: names is [name] or [class, method]."""
    body: list[ast.stmt] = tree.body
    for name in names:
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        found = [statement for statement in body if isinstance(statement, kinds) and statement.name == name]
        if not found:
            return False
        body = found[0].body
    return True


def missing_names(trees: Mapping[str, ast.Module], text: str = TEMPLATE) -> list[str]:
    """Functions and classes that a text names, as in `statistic.fstat.twoF`, and that do not exist."""
    missing = []
    for name in re.findall(r"`((?:\w+\.)+\w+)`", text):
        module = name
        while module and module not in trees:
            module = module.rpartition(".")[0]
        if not module or not defines(trees[module], name[len(module) + 1 :].split(".")):
            missing.append(name)
    return missing


def drawing(packages: Mapping[str, set[str]], order: tuple[str, ...] = ORDER) -> str:
    """The packages as a Mermaid graph, without arrows that follow from others."""
    beneath: dict[str, set[str]] = {}
    for name in order:
        beneath[name] = packages[name].union(*(beneath[other] for other in packages[name]))
    lines = ["```mermaid", "flowchart TD"]
    for name in reversed(order):
        below = packages[name]
        direct = sorted((x for x in below if not any(x in beneath[y] for y in below)), key=order.index, reverse=True)
        lines += [f"    {_label(name)} --> {_label(other)}" for other in direct] or [f"    {_label(name)}"]
    return "\n".join([*lines, "```"])


def _label(name: str) -> str:
    return "main[__main__]" if name == "__main__" else name


def table(trees: Mapping[str, ast.Module], packages: Mapping[str, set[str]], root: Path = ROOT) -> str:
    """The packages, high to low: lines, purpose, imports."""
    rows = ["| package | lines | what it is for | imports |", "|---|---:|---|---|"]
    for name in reversed(ORDER):
        files = [root / "jfstat" / f"{'__init__' if name == 'jfstat' else name}.py"]
        shown = f"`{name}.py`" if name != "jfstat" else "`__init__.py`"
        if not files[0].exists():
            files, shown = sorted((root / "jfstat" / name).rglob("*.py")), f"`{name}/`"
        lines = sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files)
        below = ", ".join(sorted(packages[name], key=ORDER.index)) or "nothing"
        rows.append(f"| {shown} | {lines} | {purpose(trees[name])} | {below} |")
    return "\n".join(rows) + "\n"


def purpose(tree: ast.Module) -> str:
    """First line of a module's docstring."""
    return (ast.get_docstring(tree) or "").partition("\n")[0]


def page(root: Path = ROOT) -> str:
    """The text of architecture.md."""
    trees = read_modules(root)
    graph = {module: imported(module, tree, trees) for module, tree in trees.items()}
    packages = between_packages(graph, EXCEPTIONS)
    left = "".join(f"- `{a}` imports `{b}`\n" for a, b in sorted(EXCEPTIONS))
    exceptions = f"\nStill against the order, and not in the drawing:\n\n{left}" if left else ""
    return TEMPLATE.format(
        drawing=drawing(packages),
        table=table(trees, packages, root),
        exceptions=exceptions,
        most=MOST_PARAMETERS,
        listed=listed_functions(trees),
    )


def without_counts(text: str) -> str:
    """A page without the numbers of lines, which change with every commit."""
    return re.sub(r"\| \d+ \|", "|", text)


def problems(root: Path = ROOT) -> list[str]:
    """All that is wrong with the imports and with the page's names, a sentence each."""
    trees = read_modules(root)
    graph = {module: imported(module, tree, trees) for module, tree in trees.items()}
    found = order_problems(graph) + parameter_problems(trees)
    found += [f"the page names {name}, which does not exist: correct TEMPLATE." for name in missing_names(trees)]
    silent = [name for name in ORDER if name in trees and not purpose(trees[name])]
    found += [f"{name} has no docstring: say what it is for." for name in silent]
    return found


def main(arguments: list[str]) -> int:
    check = arguments == ["--check"]
    found = problems()
    if check and not found and without_counts(PAGE.read_text(encoding="utf-8")) != without_counts(page()):
        found = ["architecture.md is out of date: run `python docs/architecture.py`."]
    if found:
        print("\n".join(found), file=sys.stderr)
        return 1
    if not check:
        PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

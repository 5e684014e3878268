"""Print how large and how readable jfstat/ is: lines, longest function, public names, parameters, uses of Any.

`python docs/house.py [checkout ...]` prints a row a figure and a column a checkout, this one by default, so that two
states can be compared. Standard library only.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_PARAMETERS = 6

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.Module) -> Iterator[Function]:
    """All functions and methods of a module, nested ones as well."""
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def public_parts(body: list[ast.stmt]) -> Iterator[Function | ast.AnnAssign]:
    """Functions, methods and annotated fields of classes whose names, and whose classes' names, have no underscore."""
    for statement in body:
        if isinstance(statement, Function) and (not statement.name.startswith("_") or statement.name == "__init__"):
            yield statement
        elif isinstance(statement, ast.ClassDef) and not statement.name.startswith("_"):
            fields = (x for x in statement.body if isinstance(x, ast.AnnAssign) and not _named(x).startswith("_"))
            yield from fields
            yield from public_parts([x for x in statement.body if not isinstance(x, ast.AnnAssign)])


def _named(field: ast.AnnAssign) -> str:
    return field.target.id if isinstance(field.target, ast.Name) else "_"


def parameters(function: Function) -> list[ast.arg]:
    """Parameters of a function, without self and cls."""
    a = function.args
    every = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    return [x for x in every if x.arg not in ("self", "cls")]


def annotations(node: ast.AST) -> Iterator[ast.expr]:
    """Annotations of a function's parameters and result, or of a field."""
    if isinstance(node, Function):
        yield from (x.annotation for x in parameters(node) if x.annotation)
        if node.returns:
            yield node.returns
    elif isinstance(node, ast.AnnAssign):
        yield node.annotation


def count_any(nodes: Iterator[ast.AST]) -> int:
    """How often Any stands in the annotations of functions and fields."""
    names = (x for node in nodes for annotation in annotations(node) for x in ast.walk(annotation))
    return sum(isinstance(x, ast.Name) and x.id == "Any" for x in names)


def code_length(function: Function) -> int:
    """Lines of a function without its docstring."""
    first, length = function.body[0], function.end_lineno - function.lineno + 1
    has_docstring = ast.get_docstring(function) is not None
    return length - (first.end_lineno - first.lineno + 1) if has_docstring else length


def figures(root: Path) -> dict[str, str]:
    """All figures of a checkout, by name."""
    files = sorted((root / "jfstat").rglob("*.py"))
    texts = {".".join(path.relative_to(root).with_suffix("").parts): path.read_text(encoding="utf-8") for path in files}
    trees = {name: ast.parse(text) for name, text in texts.items()}
    every = [(name, function) for name, tree in trees.items() for function in functions(tree)]
    whole = max(every, key=lambda pair: pair[1].end_lineno - pair[1].lineno)
    code = max(every, key=lambda pair: code_length(pair[1]))
    many = [function for _, function in every if len(parameters(function)) > MOST_PARAMETERS]
    open_modules = {n: t for n, t in trees.items() if not any(part.strip("_") != part for part in _folders(n))}
    public = [part for tree in open_modules.values() for part in public_parts(tree.body)]
    (names,) = (node.value for node in trees["jfstat.__init__"].body if _is_all(node))
    docstrings = [ast.get_docstring(tree) or "" for tree in trees.values()]
    return {
        "modules": f"{len(trees)}",
        "lines": f"{sum(len(text.splitlines()) for text in texts.values())}",
        "functions and methods": f"{len(every)}",
        "longest function": f"{whole[1].name}, {whole[1].end_lineno - whole[1].lineno + 1} lines",
        "longest function without its docstring": f"{code[1].name}, {code_length(code[1])} lines",
        "public names": f"{len(ast.literal_eval(names))}",
        f"functions with more than {MOST_PARAMETERS} parameters": f"{len(many)}",
        "public ones of those": f"{sum(function in public for function in many)}",
        "Any in public signatures": f"{count_any(iter(public))}",
        "Any in all annotations": f"{sum(count_any(ast.walk(tree)) for tree in trees.values())}",
        "modules that begin 'From '": f"{sum(text.startswith('From ') for text in docstrings)}",
    }


def _folders(name: str) -> list[str]:
    """A module's path without "__init__", so that an underscore means private."""
    return [part for part in name.split(".") if part not in ("__init__", "__main__")]


def _is_all(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"


def main(arguments: list[str]) -> None:
    roots = [Path(x) for x in arguments] or [Path(__file__).resolve().parents[1]]
    columns = [figures(root) for root in roots]
    for name in columns[0]:
        print(f"{name:42}" + "".join(f"{column[name]:>34}" for column in columns))


if __name__ == "__main__":
    main(sys.argv[1:])

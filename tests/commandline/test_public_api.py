"""The program is made of what users of the library can import."""

import ast
from pathlib import Path

import pytest

import jfstat

FOLDER = Path(jfstat.__file__).parent / "commandline"
NEUTRAL = {"atomic", "compilecache", "files", "processor", "version"}
"""Modules without physics: writing and reading files, what the machine is called, compiled programs on disk."""
PUBLIC = {*jfstat.__all__, *jfstat._PACKAGES}


def internals(tree: ast.Module) -> list[str]:
    """What a module imports or uses of jfstat that is not public, type-only imports included."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.startswith("jfstat.")]
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "jfstat":
            package = (node.module or "").partition(".")[2]
            names = [alias.name for alias in node.names]
            if not package:
                found += [name for name in names if name not in PUBLIC]
            elif package.split(".")[0] not in {"commandline", *NEUTRAL} and package not in jfstat._PACKAGES:
                found.append(node.module or "")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "jfstat":
            found += [node.attr] if node.attr not in PUBLIC else []
    return found


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_the_program_uses_the_public_api_only(path):
    assert internals(ast.parse(path.read_text())) == []


def test_what_is_not_public_is_found():
    text = "import jfstat.data.noise\nfrom jfstat.data import prepare\nfrom jfstat import _HOMES, search\njfstat._HOMES"
    assert internals(ast.parse(text)) == ["jfstat.data.noise", "jfstat.data", "_HOMES", "_HOMES"]

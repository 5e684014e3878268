"""Write columns.md: the columns of all tables, from jfstat/candidates/schema.py.

`python docs/columns.py` writes the page, `python docs/columns.py --check` only says whether it is out of date;
tests/docs/test_columns.py runs it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from jfstat.candidates.schema import COLUMNS, Column

PAGE = Path(__file__).with_name("columns.md")
HEAD = """\
# Columns of tables

Written by `python docs/columns.py`, from `jfstat/candidates/schema.py`. Tables of [search](searching.md), \
[refine](refining.md), [follow_up](followup.md) and the others have units and the columns below, as far as they apply. \
Names in angle brackets stand for several columns: `<k>` for 1, 2, ..., `<detector>` for H1, L1, ..., and `<name>` for \
any other column.

A **stale** column says something of the template or the data that it was computed from: `refine`, `follow_up` and \
`fstat_table` leave it out, unless they compute it themselves. All others, and columns of your own, go on into their \
tables. A column in **double precision** has too few digits in float32, which is refused.
"""


def row(column: Column) -> str:
    """Return a column's row of the page's tables."""
    unit, stale, double = column.unit.replace("<k>", "^k"), column.stale * "stale", column.double * "double"
    return f"| `{column.name}` | {unit} | {column.about} | {', '.join(filter(None, (stale, double)))} |"


def page() -> str:
    """Return the text of columns.md."""
    parts = [HEAD]
    for title, group in COLUMNS.items():
        parts += [f"## {title}\n", "| column | unit | what it holds | |", "|---|---|---|---|", *map(row, group), ""]
    return "\n".join(parts)


def main(arguments: list[str]) -> int:
    if arguments != ["--check"]:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        print("columns.md is out of date: run `python docs/columns.py`.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

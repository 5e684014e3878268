"""From banks of templates to tables of candidates, and these to files and back."""

from jfstat.banks.grid import grid
from jfstat.searching.search import search
from jfstat.searching.tables import read_candidates, write_candidates

__all__ = ["grid", "read_candidates", "search", "write_candidates"]

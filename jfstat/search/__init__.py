"""From banks of templates to tables of candidates, and these to files and back."""

from jfstat.search.grid import grid
from jfstat.search.search import search
from jfstat.search.tables import read_candidates, write_candidates

__all__ = ["grid", "read_candidates", "search", "write_candidates"]

"""Make tables of candidates, and compute what is known about each candidate."""

"""Tables of candidates, and what is known about each candidate."""

"""How weak a signal can be and still be found: sensitivity by formula, upper limits by injections into the data."""

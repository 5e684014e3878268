"""Signals whose frequency wanders: paths through tables of segments and frequencies, by hidden Markov models."""

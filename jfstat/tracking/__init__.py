"""Signals with wandering frequency: paths through tables of segments and frequencies, by hidden Markov models."""

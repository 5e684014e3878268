"""Bayesian inference: likelihoods, the B-statistic, and posteriors of a signal's parameters."""

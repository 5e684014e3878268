"""Refining candidates by climbing to the peak of 2F next to each, with error bars; and the posterior there."""

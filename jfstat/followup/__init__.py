"""Refine candidates by climbing to the peak of 2F near each, with error bars and posteriors."""

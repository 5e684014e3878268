"""From ranges of parameters to banks of templates: products of ranges, and lattices laid by the metric."""

"""From candidates to refined candidates: metric, coordinates, trust-region Newton, error bars, posterior."""

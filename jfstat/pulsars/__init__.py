"""Known pulsars: timing solutions from .par files and catalogues, and the templates of their signals."""

"""Describe what a source emits: templates, amplitudes, windows, phase models, and their parameters, units and times."""

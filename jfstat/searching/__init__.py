"""Searches over banks of templates."""

"""Search data with banks of templates."""

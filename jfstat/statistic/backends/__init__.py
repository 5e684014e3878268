"""Backends, which compute 2F for a batch of templates: one that runs everywhere, and faster ones for some devices."""

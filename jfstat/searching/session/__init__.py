"""Run a search safely: checkpoints, stopping, units of work, several processes, progress."""

"""What surrounds a search: checkpoints, stopping, units of work, several processes, progress."""

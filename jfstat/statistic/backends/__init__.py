"""Ways to compute a batch of templates: one reference, and faster ones where the hardware allows."""

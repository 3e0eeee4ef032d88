"""What code says beyond its stored names: reads of them, what a call means, and what a change touches."""

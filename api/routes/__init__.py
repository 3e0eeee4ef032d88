"""HTTP to values and back; nothing else."""

"""Resources of a process that projects share fairly."""

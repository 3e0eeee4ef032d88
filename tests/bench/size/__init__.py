"""Curves over the numbers of open tasks, cached vectors and files: `make bench ONLY=size [PART=name]`."""

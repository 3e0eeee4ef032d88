"""Curves over the numbers of files, chunks and open tasks: `make bench ONLY=size [PART=name]`."""

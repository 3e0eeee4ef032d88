"""The object store: the contents of the nodes of every project."""

"""The object store: the contents of the nodes of all projects."""

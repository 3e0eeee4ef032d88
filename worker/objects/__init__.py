"""The object store for the contents of all projects' nodes."""

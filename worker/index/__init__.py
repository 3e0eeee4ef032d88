"""The steps that make a file searchable: catalog, prepare, embed, write, record."""

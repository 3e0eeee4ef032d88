"""The calls that search or read what is indexed."""

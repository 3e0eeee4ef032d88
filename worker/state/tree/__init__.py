"""Rows of summary trees: their builds, leaves, nodes and cached summaries."""

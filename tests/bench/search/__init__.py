"""Measures search quality with labelled questions. The labels do not come from Foldex's own ranking."""

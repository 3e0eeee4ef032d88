"""One query over one tool, from its words to its hits."""

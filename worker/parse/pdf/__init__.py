"""PDF: the text of its pages, its outline and its annotations."""

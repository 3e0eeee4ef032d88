"""HTML, and e-books, which are made of it."""

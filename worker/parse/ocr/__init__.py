"""Text in pictures and scanned pages."""

"""Unit tests of `worker/parse/ocr`."""

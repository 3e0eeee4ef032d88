"""The text of a file or of a part of it, put together from its chunks."""

"""Routes: they only translate between HTTP and values."""

"""Code shared by all requests: authentication, limits, errors and metrics."""

"""What every request passes: authentication, limits, errors and metrics."""

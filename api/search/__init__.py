"""Search in one tool or several, and grep."""

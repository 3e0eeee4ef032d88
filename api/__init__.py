"""The user-facing parts: HTTP API, search, embedded stack and command line."""

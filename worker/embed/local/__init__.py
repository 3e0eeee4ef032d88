"""The embedding model that runs on this machine, without an account or a download."""

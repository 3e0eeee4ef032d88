"""The embedded stack: Postgres, Redis and Foldex's own processes on this machine, installed by pip alone."""

"""The version of this client, which is that of the service it was made for."""

__version__ = "1.0.0"

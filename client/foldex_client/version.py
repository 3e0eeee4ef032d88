"""The version of this client, which is that of the service it was made for."""

__version__ = "0.2.0"

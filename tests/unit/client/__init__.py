"""The client library, over a transport instead of a network."""

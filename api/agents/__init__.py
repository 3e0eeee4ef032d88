"""The service as tools of agents, by the Model Context Protocol. It stands on the client library alone."""

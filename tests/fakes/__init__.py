"""Stand-ins for external services, as strict as the services are documented to be."""

"""Stand-ins for foreign services, as strict as the services are documented to be."""

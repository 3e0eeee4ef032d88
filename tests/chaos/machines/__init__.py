"""Three machines in network namespaces, which share servers only, and what can happen to a machine."""

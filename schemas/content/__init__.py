"""Sources of content, and the types that flow through an index run."""

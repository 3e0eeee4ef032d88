"""For whom a caller acts: principals that a gateway names, or those of a signed token."""

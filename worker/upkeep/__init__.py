"""What keeps an installation going beside indexing: sweep, check, delete, watch."""

"""What searches, grep and symbols are asked and answer."""

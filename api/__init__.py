"""What a user touches: HTTP, search, web page, command line."""

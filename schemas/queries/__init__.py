"""Requests and answers of search, grep and symbols."""

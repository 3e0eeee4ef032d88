"""Runs one query over one tool."""

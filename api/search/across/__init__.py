"""Runs one query over several tools or paths."""

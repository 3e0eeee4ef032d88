"""Reads files of formats whose libraries may crash, in a separate process."""

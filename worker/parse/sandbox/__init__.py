"""Reads files of formats whose libraries may crash, in a process of its own."""

"""The process and the machine it runs on: its memory and its disk."""

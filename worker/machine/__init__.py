"""The process and the machine it runs on: memory, disk, paths and access rights."""

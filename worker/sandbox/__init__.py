"""Talks to helper processes, which parse what tenants wrote: no other process needs to.

`worker.parse.sandbox.child` is the program that they run. Nothing here imports a parser.
"""

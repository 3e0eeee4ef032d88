"""The command `foldex`, as it is installed.

An installed Foldex lies below this package: its own packages would otherwise be top-level packages called `api`,
`worker` and `schemas` in other people's environments. In a checkout they lie beside it.
"""

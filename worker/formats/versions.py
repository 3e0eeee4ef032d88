"""Determines the code version that reads a file, by its name alone."""

from __future__ import annotations

from worker.formats import by_name, unsupported
from worker.formats.grammars import is_known


def version(name: str) -> str:
    """Return the code version of parser and chunker for a file of this name, such as "markdown-1" or "pdf-1 tesseract".

    Installing a program or a grammar changes the version, so that files are read again with its help.
    """
    format_, language = by_name.of(name)
    grammar = ["grammar"] if language and is_known(language) else []
    return " ".join([f"{format_.type}-{format_.version}", *unsupported.programs(format_.programs), *grammar])

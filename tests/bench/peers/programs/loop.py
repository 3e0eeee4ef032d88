"""What the programs share: the conversation with the benchmark, the files, and vectors that cost nothing.

It imports only what each environment has.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

DIMENSIONS = 384
CHUNK_TOKENS, OVERLAP_TOKENS = 512, 64
#: Any vectors do, as long as they are at hand and differ from text to text.
_VECTORS = np.random.default_rng(0).standard_normal((1 << 10, DIMENSIONS)).astype(np.float32)


def vectors(texts: list[str]) -> np.ndarray:
    """One vector for each text, of shape (texts, 384)."""
    return _VECTORS[[hash(text) % len(_VECTORS) for text in texts]]


def files(folder: Path) -> list[Path]:
    """All files below the folder, in order."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def text_of(path: Path) -> str:
    """The file's text, without the special tokens that tiktoken refuses to see in a text."""
    return path.read_text(encoding="utf-8", errors="replace").replace("<|", "< |")


def serve(index: Callable[[Path], None], count: Callable[[], int]) -> None:
    """Answer each line of the standard input with a line of JSON: `index FOLDER` or `count`.

    `index` brings the index up to date with the folder; `count` returns its chunks.
    """
    # libraries print too; the answers keep the real output to themselves
    answers, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        command, _, folder = line.strip().partition(" ")
        if command == "index":
            index(Path(folder))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"chunks": count(), "peak_mb": peak * 1024 / 1e6}), file=answers, flush=True)

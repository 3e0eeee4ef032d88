"""What each step of indexing takes one process: the corpus of `folder`, without stores and requests."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import UUID, uuid4

import numpy as np
import psutil

from schemas.content.document import Document
from schemas.content.source import ChunkSettings
from schemas.errors import FileError
from tests.bench.folder import corpus
from tests.bench.processor import name_of
from worker import parse
from worker.chunk import chunk
from worker.formats.detect import detect
from worker.index.file_states import EmbeddedFile, FileFacts, PreparedFile
from worker.index.prepare import place
from worker.index.write import _reader_of_words, _rows
from worker.machine.memory.gc_pause import collect_rarely
from worker.parse import Limits
from worker.parse.sandbox import client
from worker.reading import read_form
from worker.state.search import symbols
from worker.tokens.keywords import keywords_of
from worker.tokens.tokenizers import cl100k, counted
from worker.vectors.lance.row_tables import upsert_table

T = TypeVar("T")

MAX_TOKENS = 8000
DIMENSIONS = 384
VECTOR = np.ones(DIMENSIONS, dtype=np.float32)
#: Files whose rows go into one table of the store.
FILES = 192


def run(directory: Path) -> None:
    """Take every file through the steps, twice: in the second round all words are known."""
    folder = directory / "corpus"
    size = corpus(folder)
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    collect_rarely()
    for name in ("first round", "words known"):
        spent: dict[str, float] = defaultdict(float)
        helper = _helper_seconds()
        chunks = _round(files, folder, spent)
        spent["parser's helper"] = _helper_seconds() - helper
        each = {stage: seconds / chunks * 1e6 for stage, seconds in spent.items()}
        shares = ", ".join(f"{stage} {share:.1f}" for stage, share in each.items())
        print(f"{name}: {chunks} chunks, {size / 1e6:.1f} MB; microseconds of the processor for a chunk: {shares}")
    client.stop()


def _round(files: list[Path], folder: Path, spent: dict[str, float]) -> int:
    chunks, waiting = 0, list[EmbeddedFile]()
    for number, path in enumerate(files, start=1):
        made = _prepared(path, str(path.relative_to(folder)), spent)
        if made is not None:
            chunks += len(made.state.new)
            waiting.append(made)
        if waiting and (number % FILES == 0 or number == len(files)):
            _write(waiting, spent)
            waiting = []
    return chunks


def _prepared(path: Path, name: str, spent: dict[str, float]) -> EmbeddedFile | None:
    """A file cut into chunks, with vectors; None if it has no text."""
    data = path.read_bytes()
    claim: Any = SimpleNamespace(id=uuid4(), path=name, id_path=f"/{name}", node_id=None, generation=1)
    try:
        document = _timed(spent, "parse", lambda: parse.parse(detect(name, data), data, Limits()))
    except FileError:
        return None
    read = _timed(spent, "read form", lambda: read_form(document.type, document.text))
    text = read.whole.text if read.whole else document.text
    _, tokenizer = _timed(spent, "tokens", lambda: counted(text, cl100k()))
    settings = ChunkSettings(size=512, overlap=64)
    cut = _timed(spent, "cut", lambda: chunk(document, settings, tokenizer, MAX_TOKENS, read=read))
    facts = FileFacts(document.type, language=document.language)
    placed = _timed(spent, "ids", lambda: place(claim, facts, document, cut, epoch=1, embedded=True))
    _timed(spent, "rows of symbols", lambda: _symbol_rows(claim.id, document))
    symbols = document.definitions, document.references
    state = PreparedFile(claim, facts, placed, True, *symbols, read_words=read.words)
    return EmbeddedFile(state, {one.id: VECTOR for one in placed})


def _symbol_rows(file_id: UUID, document: Document) -> None:
    symbols._definition_lines(file_id, file_id, document.definitions)
    symbols._use_lines(file_id, file_id, document.references)


def _write(files: list[EmbeddedFile], spent: dict[str, float]) -> None:
    """What is made of a claim's files for the vector store."""
    made = [(file.claim.path, _reader_of_words(file.state), one.chunk) for file in files for one in file.state.new]
    texts = _timed(spent, "read words", lambda: [read_words(one.text) for _, read_words, one in made])
    named = [(path, one.context, text) for (path, _, one), text in zip(made, texts, strict=True)]
    _timed(spent, "words", lambda: [keywords_of(*each, "en") for each in named])
    without_words: Any = SimpleNamespace(store=SimpleNamespace(has_keywords=False))
    rows = _timed(spent, "rows", lambda: [row for file in files for row in _rows(without_words, file)])
    _timed(spent, "columns", lambda: upsert_table(rows, DIMENSIONS, has_keywords=False))


def _timed(spent: dict[str, float], stage: str, work: Callable[[], T]) -> T:
    started = time.thread_time()
    try:
        return work()
    finally:
        spent[stage] += time.thread_time() - started


def _helper_seconds() -> float:
    """Processor seconds so far of the process that parses code."""
    helpers = [child for child in psutil.Process().children() if name_of(child) == "parser's helper"]
    return sum(times.user + times.system for times in (helper.cpu_times() for helper in helpers))

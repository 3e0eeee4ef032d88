"""Measures the words that readers find, reader and chunker over tests/data, and indexes this repository, by type."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from api.stack.record import ROOT
from schemas.content.document import Document
from schemas.content.source import ChunkSettings
from schemas.errors import FileError
from tests.bench import recall
from tests.bench.running import running
from tests.parsing import parse
from worker.chunk import chunk
from worker.formats import by_name
from worker.parse import Limits
from worker.parse.code.grammar import grammar
from worker.parse.sandbox import client as sandbox
from worker.tokens.tokenizers import cl100k

if TYPE_CHECKING:
    from tree_sitter import Parser

T = TypeVar("T")

SAMPLES = ROOT / "tests" / "data"
#: Text samples are repeated up to this many bytes. Samples of other formats cannot be repeated.
BYTES = 500_000
#: Each sample is read repeatedly for at least this many seconds and this many times.
SECONDS, TIMES = 1.0, 3
#: Code is also read as files of these lengths. Typical source files have ten thousand bytes.
LENGTHS = (10_000, 500_000)
CHUNKS = ChunkSettings(unit="tokens", size=512, overlap=64)
MAX_TOKENS = 8192

#: Text before, between and after the copies of a sample.
_COPIES = {
    "markdown": (b"", b"\n\n", b""),
    "text": (b"", b"\n", b""),
    "code": (b"", b"\n", b""),
    "csv": (b"", b"", b""),
    "jsonl": (b"", b"\n", b""),
    "json": (b"[", b",", b"]"),
    "yaml": (b"", b"\n---\n", b""),
    "html": (b"", b"\n", b""),
}


_OUTCOMES = """
SELECT CASE status WHEN 'indexed' THEN type ELSE concat_ws(' ', type, status, reason) END AS name, count(*),
       sum(live_chunks) AS chunks
FROM search_index_file GROUP BY name ORDER BY chunks DESC, name
"""


@dataclass
class Figures:
    """The cost of the samples of one format. `chunked_bytes` is the chunked text, in UTF-8."""

    files: int = 0
    bytes_: int = 0
    seconds: float = 0.0
    chunked_bytes: int = 0
    chunk_seconds: float = 0.0
    chunks: int = 0


def run(place: Path) -> None:
    cl100k()
    below = recall.measure(_both)
    print(f"{'format':10} {'files/s':>9} {'read MB/s':>10} {'cut MB/CPU-s':>13} {'chunks':>7}")
    for type_, samples in _by_type().items():
        _measure(type_, samples)
    print("files/s: samples as they are, read and cut. MB/s: text formats as files of 500 kB, of others the file's own")
    print("bytes are read, and 500 kB of their text are cut.")
    _languages()
    _repository(place)
    if below:
        raise SystemExit(f"Words are missing from {', '.join(below)}; compare their texts with tests/bench/made.py.")


def _languages() -> None:
    """Time the bare parse of each language, and all work on it: syntax in the helper, tokens, chunks."""
    head = "".join(f"{f'{length:,} B: parse':>18} {'whole':>6} {'times':>6}" for length in LENGTHS)
    print(f"{'code':12}{head}")
    for path in sorted(SAMPLES.glob("code/*")):
        language = by_name.of(path.name)[1]
        known = grammar(language) if language else None
        if known is None:
            print(f"{path.name:12} no grammar is installed")
            continue
        print(f"{language:12}{''.join(_whole(path, known.parser, length) for length in LENGTHS)}")
    sandbox.stop()
    print(
        "parse: tree-sitter alone, whole: parse, definitions, references, tokens and chunks, both in MB/CPU-s of this"
    )
    print("and the helper's process (the least of several times); times: that of the whole over that of the parse.")


def _whole(path: Path, parser: Parser, length: int) -> str:
    data = path.read_bytes()
    data = b"\n".join([data] * max(1, length // len(data)))
    bare: list[float] = []
    whole: list[float] = []
    until = time.monotonic() + SECONDS
    while len(whole) < TIMES or time.monotonic() < until:
        # in turns, so that other load on the machine slows down both equally
        bare.append(_timed(time.process_time, lambda: parser.parse(data))[0])
        whole.append(_timed(_both, lambda: _chunks(parse(path.name, data, Limits())))[0])
    # the first call starts the helper
    parsed, done = min(bare[1:]), min(whole[1:])
    return f"{len(data) / 1e6 / parsed:18.2f} {len(data) / 1e6 / done:6.2f} {done / parsed:6.2f}"


def _both() -> float:
    """Seconds of processor time of this process and the helper, as Linux counts them."""
    helper = sandbox.parser.running
    # converts a process id to the id of its CPU clock
    return time.process_time() + (time.clock_gettime(~helper.process.pid << 3 | 2) if helper else 0.0)


def _by_type() -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = defaultdict(list)
    for path in sorted(SAMPLES.glob("*/*")):
        if path.is_file() and path.suffix != ".expected":
            found[path.parent.name].append(path)
    return found


def _measure(type_: str, samples: list[Path]) -> None:
    small, large, refused = Figures(), Figures(), set[str]()
    for path in samples:
        try:
            data = path.read_bytes()
            _repeat(small, path.name, data)
            _repeat(large, path.name, _longer(type_, data), whole=type_ in _COPIES)
        except FileError as error:
            refused.add(f"{path.name}: {error.reason}")
        except ImportError as error:
            refused.add(f"{path.name}: {error}")
    if small.files:
        rate = small.files / (small.seconds + small.chunk_seconds)
        cut = large.chunked_bytes / 1e6 / large.chunk_seconds
        print(f"{type_:10} {rate:9.0f} {large.bytes_ / 1e6 / large.seconds:10.2f} {cut:13.1f} {small.chunks:7}")
    for line in sorted(refused):
        print(f"{'' if small.files else type_:10} {line}")


def _repeat(figures: Figures, name: str, data: bytes, *, whole: bool = True) -> None:
    """Read and chunk one file repeatedly. Without `whole`, chunk its text repeated to `BYTES`."""
    until, times, chunks = time.monotonic() + SECONDS, 0, 0
    while times < TIMES or time.monotonic() < until:
        seconds, document = _timed(time.perf_counter, lambda: parse(name, data, Limits()))
        figures.seconds += seconds
        if not whole:
            document = replace(document, text=f"{document.text}\n\n" * (BYTES // len(document.text) + 1))
        seconds, chunks = _timed(time.process_time, lambda document=document: _chunks(document))  # type: ignore[misc] # mypy infers no default's type
        figures.chunk_seconds += seconds
        figures.chunked_bytes += len(document.text.encode())
        figures.bytes_ += len(data)
        times += 1
    figures.files += times
    figures.chunks += chunks


def _chunks(document: Document) -> int:
    return len(chunk(document, CHUNKS, cl100k(), MAX_TOKENS))


def _timed(clock: Callable[[], float], work: Callable[[], T]) -> tuple[float, T]:
    started = clock()
    done = work()
    return clock() - started, done


def _longer(type_: str, data: bytes) -> bytes:
    if type_ not in _COPIES or not data:
        return data
    before, between, after = _COPIES[type_]
    return before + between.join([data] * (BYTES // len(data) + 1)) + after


def _repository(place: Path) -> None:
    """Index this repository with the whole service: the real ignore rules, types and outcomes."""
    with running(place, ROOT) as service:
        service.wait(service.local_tool(ROOT), seconds=600)
        print("this repository:")
        for name, files, chunks in service.rows(_OUTCOMES):
            print(f"  {name:26} {files:5} files {chunks:6} chunks")

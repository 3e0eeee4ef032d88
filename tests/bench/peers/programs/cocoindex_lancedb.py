"""CocoIndex with a memo for each file and LanceDB as its target. It measures chunks in bytes, four a token here."""

from __future__ import annotations

import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import cocoindex as coco
import lancedb as lance
import numpy as np
from cocoindex.connectors import lancedb, localfs
from cocoindex.ops.text import RecursiveSplitter, detect_code_language
from cocoindex.resources.file import FileLike
from cocoindex.resources.schema import VectorSchema
from loop import CHUNK_TOKENS, DIMENSIONS, OVERLAP_TOKENS, serve, vectors
from numpy.typing import NDArray

STATE = Path(sys.argv[1])
BYTES_A_TOKEN = 4
DATABASE = coco.ContextKey[lancedb.LanceAsyncConnection]("database")
SPLITTER = RecursiveSplitter()


@dataclass
class Chunk:
    id: str
    path: str
    first: int
    text: str
    vector: NDArray[np.float32]


@coco.lifespan
async def _lifespan(builder: coco.EnvironmentBuilder) -> AsyncIterator[None]:
    builder.settings.db_path = STATE / "memo"
    builder.provide(DATABASE, await lancedb.connect_async(str(STATE / "lance")))
    yield


@coco.fn(memo=True)
async def _file(file: FileLike[Path], table: lancedb.TableTarget[Chunk]) -> None:
    name = str(file.file_path.path)
    chunks = SPLITTER.split(
        await file.read_text(),
        CHUNK_TOKENS * BYTES_A_TOKEN,
        chunk_overlap=OVERLAP_TOKENS * BYTES_A_TOKEN,
        language=detect_code_language(filename=name),
    )
    found = vectors([chunk.text for chunk in chunks])
    for chunk, vector in zip(chunks, found, strict=True):
        first = chunk.start.char_offset
        key = hashlib.sha256(f"{name}:{first}".encode()).hexdigest()
        table.declare_row(row=Chunk(key, name, first, chunk.text, vector))


@coco.fn
async def _folder(folder: Path) -> None:
    schema = await lancedb.TableSchema.from_class(
        Chunk, primary_key=["id"], column_specs={"vector": VectorSchema(np.dtype(np.float32), DIMENSIONS)}
    )
    table = await lancedb.mount_table_target(DATABASE, "chunks", schema)
    await coco.mount_each(_file, localfs.walk_dir(folder, recursive=True).items(), table)


def main() -> None:
    apps: dict[Path, coco.App[[Path], None]] = {}

    def index(folder: Path) -> None:
        if folder not in apps:
            apps[folder] = coco.App(coco.AppConfig(name="folder"), _folder, folder)
        apps[folder].update_blocking()

    async def rows() -> int:
        database = await lance.connect_async(str(STATE / "lance"))
        try:
            return await (await database.open_table("chunks")).count_rows()
        except ValueError:
            return 0

    serve(index, lambda: asyncio.run(rows()))


main()

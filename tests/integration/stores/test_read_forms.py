r"""Texts are found by words and by grep as they are read, in each store, and shown as they are written."""

from __future__ import annotations

import base64
import random
import re
from pathlib import Path
from typing import Any

import pytest

from api.search.text.snippets import LONG_TEXT
from tests.integration.stores.ground import Ground
from tests.service import TOOLS
from worker.state.index import drift

PICTURE = base64.b64encode(random.Random(5).randbytes(400_000)).decode()
#: Files with the words that each is found by, the words that a grep finds, and where.
FILES = {
    "address.json": ('{"a": 1,\n "street": "Schr\\u00f6derweg"}', "Schröderweg", "schröderweg", (2, 13)),
    "animal.jsonl": ('{"name": "\\u5927\\u718a\\u732b"}\n', "大熊猫", "大熊猫", (1, 11)),
    "lines.json": ('{"text": "first\\nsecondword"}', "secondword", "secondword", (1, 18)),
    "windows.json": (
        '{"path": "C:\\\\newfolder\\\\tablefolder"}',
        "newfolder tablefolder",
        r"c:\newfolder\table",
        (1, 11),
    ),
    "config.yaml": ('a: 1\nb: "K\\u00e4sebrot"\n', "Käsebrot", "käsebrot", (2, 5)),
    "config.toml": ('b = "Kr\\u00e4uterquark"\n', "Kräuterquark", "kräuterquark", (1, 6)),
    "app.properties": ("b=Wei\\u00dfbrot\n", "Weißbrot", "weißbrot", (1, 3)),
    "app.log": ("1 error\\tfirstpart\\nlastpart M&uuml;hlrad\n", "lastpart Mühlrad", "mühlrad", (1, 30)),
    "strings.py": ('A = "Gem\\xc3\\xbcse"\nB = "C:\\newdir\\barn"\n', "Gemüse newdir", "gemüse", (1, 6)),
    "paper.tex": (
        'By G{\\"o}ttingen, Donau\\-dampf\\-schiff.\n',
        "Göttingen Donaudampfschiff",
        "donaudampfschiff",
        (1, 19),
    ),
    "library.bib": (
        "@book{a,\n title = {The {W}asserstein {M}\\'alaga},\n}\n",
        "Wasserstein Málaga",
        "málaga",
        (2, 29),
    ),
    "page.md": ("# Schl&ouml;sser\n\nsnake\\_casing\n", "Schlösser snake_casing", "snake_casing", (3, 1)),
    "table.csv": ("a,b\n1,M&uuml;nchnerin\n", "Münchnerin", "münchnerin", (2, 3)),
    "soft.txt": ("Ein Dampf\u00adlok\u00adschuppen\n", "Dampflokschuppen", "dampflokschuppen", (1, 5)),
    "picture.md": (f"# Kingfisher\n\n![x](data:image/png;base64,{PICTURE})\n", "Kingfisher", "kingfisher", (1, 3)),
    "picture.json": (
        f'{{"title": "Woodpecker", "x": "data:image/png;base64,{PICTURE}"}}',
        "woodpecker",
        "woodpecker",
        (1, 12),
    ),
}


@pytest.fixture(scope="module")
def folder(ground: Ground) -> Path:
    folder = ground.root / "read"
    folder.mkdir()
    for name, (text, *_) in FILES.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def tool(ground: Ground, folder: Path) -> str:
    ground.provider.reset()
    tool = ground.service.local_tool(folder)
    ground.service.wait(tool)
    return tool


def first(ground: Ground, tool: str, query: str) -> dict[str, Any]:
    hits = ground.service.query(tool, query, mode="keyword")
    return hits[0] if hits else {"file_path": None}


@pytest.mark.parametrize("name", FILES)
def test_each_is_found_by_its_words_and_shown_as_it_is_written(ground: Ground, tool: str, name: str) -> None:
    text, query, _, _ = FILES[name]
    for word in query.split():
        hit = first(ground, tool, word)
        assert (word, hit["file_path"]) == (word, name)
        written = text[hit["start_char"] : hit["end_char"]]
        assert (hit["chunk_text"] == written) is (len(written) <= LONG_TEXT)
        # bytes of long texts are a placeholder in hits; the call for a chunk has them
        chunk = ground.service.get(f"{TOOLS}/{tool}/chunks/{hit['chunk_id']}")["chunk"]
        assert chunk["chunk_text"] == written


@pytest.mark.parametrize("name", FILES)
def test_each_is_found_by_grep_at_its_place_in_the_file(ground: Ground, tool: str, name: str) -> None:
    _, _, pattern, place = FILES[name]
    for regex in (False, True):
        sent = re.escape(pattern) if regex else pattern
        answer = ground.service.post(f"{TOOLS}/{tool}/grep", {"pattern": sent, "regex": regex}, 200)
        found = [(hit["file_path"], hit["line"], hit["column"]) for hit in answer["hits"]]
        assert found == [(name, *place)]


def test_bytes_are_not_paid_for(ground: Ground, tool: str) -> None:
    files = {file["file_path"]: file for file in ground.service.files(tool)}
    assert [files[name]["chunks"] for name in ("picture.md", "picture.json")] == [1, 1]
    assert sum(file["tokens"] for file in files.values()) < 1_000


def test_what_changes_below_the_same_reading_is_shown_and_costs_nothing(
    ground: Ground, folder: Path, tool: str
) -> None:
    path = folder / "address.json"
    path.write_text(FILES["address.json"][0].replace("\\u00f6", "ö"))
    ground.service.post(f"{TOOLS}/{tool}/reindex", {})
    assert ground.service.wait(tool)["embedded_chunks"] == 0
    hit = first(ground, tool, "Schröderweg")
    assert hit["chunk_text"] == path.read_text()
    path.write_text(FILES["address.json"][0])
    ground.service.post(f"{TOOLS}/{tool}/reindex", {})
    assert ground.service.wait(tool)["embedded_chunks"] == 0


def test_words_are_made_again_from_the_rows(ground: Ground, tool: str) -> None:
    index = ground.index(tool)
    ids = ground.ids(index, "address.json")
    _, _, words = drift.rewrite(ground.resources.pool, index.id, ids)
    assert ["schröderweg" in each.code.split() for each in words.values()] == [True] * len(ids)

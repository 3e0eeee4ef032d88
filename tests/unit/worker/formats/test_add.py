"""A new format is a row of the table and a module that reads it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

from api.stack.record import ROOT

ROW = (
    '    Format("recipe", "recipe", "worker.parse.text.recipe:read", mime="text/x-recipe", isolated=True{more}),\n)\n\n'
)
MODULE = '''
"""Reads recipes."""
from schemas.content.document import Document
from worker.parse.limits import Limits
from worker.parse.text.markdown import Heading

def read(data: bytes, limits: Limits) -> Document:
    return Document(data.removeprefix(b"\\\\x7fRECIPE\\\\n").decode(), "recipe", markup="markdown")

def headings(text):
    for start in range(len(text)):
        if text.startswith("*", start):
            end = text.index("\\\\n", start)
            yield Heading(start, end, 1, text[start + 1 : end])
'''
MORE = (
    ', as_written=True, headings="worker.parse.text.recipe:headings"'
    ', signatures=(Signature("recipe", rb"\\x7fRECIPE\\n", "text/x-recipe"),)'
)
WALK = """
import json
from api.search.grep.file_types import FileTypeFilter
from schemas.content.source import ChunkSettings
from worker.chunk import chunk
from worker.formats.detect import detect
from worker.formats.registry import AS_WRITTEN
from worker.parse import Limits, parse, version
from worker.tokens.tokenizers import cl100k
text = b"\\x7fRECIPE\\n*Soup\\nWater and salt.\\n*Bread\\nFlour and water.\\n"
for name in ("soup.recipe", "soup.docx"):
    file = detect(name, text)
    document = parse(file, text, Limits())
    titles = [chunk.title for chunk in chunk(document, ChunkSettings(threshold=0), cl100k(), 512)]
    print(json.dumps([document.type, file.mime, titles]))
print(json.dumps([version("a.recipe"), FileTypeFilter(["recipe"]).has("a.recipe", None), "recipe" in AS_WRITTEN]))
"""


def test_a_format_is_a_row_and_a_module(tmp_path: Path) -> None:
    for package in ("api", "schemas", "worker"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__", "static"))
    registry = tmp_path / "worker" / "formats" / "registry.py"
    before, after = registry.read_text().split(")\n\n#: A document in a ZIP container.")
    registry.write_text(f"{before}{ROW.format(more=MORE)}#: A document in a ZIP container.{after}")
    (tmp_path / "worker" / "parse" / "text" / "recipe.py").write_text(MODULE.strip().replace("\\\\", "\\"))
    command = [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n{WALK}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    by_name, by_content, table_facts = map(json.loads, done.stdout.splitlines())
    assert by_name == by_content == ["recipe", "text/x-recipe", ["Soup", "Bread"]]
    assert table_facts == ["recipe-1", True, True]

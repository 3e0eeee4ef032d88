"""A folder in another language than English, where nothing names a model."""

from __future__ import annotations

from pathlib import Path

from tests.service import TOOLS, NewService, api_alone, eventually, with_one_worker
from worker.embed.local import e5
from worker.settings import BY_LANGUAGE

TEXTS = {
    "wasser": "# Wasser\n\nDie Pumpe fördert das Wasser aus dem Brunnen in den Behälter auf dem Dach.\n",
    "brot": "# Brot\n\nDer Bäcker knetet den Teig am Abend und backt ihn am frühen Morgen.\n",
    "zug": "# Zug\n\nDie Lokomotive zieht zwölf Wagen über den Pass in das nächste Tal.\n",
}


def test_a_german_folder_is_found_in_another_language(new_service: NewService, root: Path) -> None:
    folder = root / "deutsch"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / f"{name}.md").write_text(text)
    env = {"DEFAULT_EMBEDDING_MODEL": BY_LANGUAGE, "LOCAL_SOURCE_ROOTS": str(root)}
    with new_service(with_one_worker, **env) as here:
        tool = here.local_tool(folder)
        assert here.wait(tool)["indexed_files"] == len(TEXTS)
        index = here.get(f"{TOOLS}/{tool}")["index"]
        assert (index["model"], index["model_reason"][:4]) == (e5.MODEL, "100%")
        for query in ("a baker kneads dough", "الخباز يعجن العجين"):
            answer = here.post(f"{TOOLS}/{tool}/query", {"query": query}, 200)
            assert answer["results"][0]["file_name"] == "brot.md"
            # the query shares no word with what it means, and nobody knows how near is near enough
            assert (answer["notes"], answer["calibrated"]) == ([], False)
            assert answer["results"][0]["score"] > 0.1


def test_an_api_shares_what_tells_languages_apart_before_the_first_tool_needs_it(new_service: NewService) -> None:
    with new_service(api_alone, DEFAULT_EMBEDDING_MODEL=BY_LANGUAGE) as here:
        eventually(lambda: bool([*(here.home / "run").glob("languages-*")]), 20, here.logs)

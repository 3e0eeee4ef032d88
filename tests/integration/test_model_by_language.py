"""A folder in another language than English, where nothing names a model."""

from __future__ import annotations

from pathlib import Path

from tests.service import TOOLS, NewService, api_alone, checked, eventually, with_one_worker
from worker.embed.local import e5, minilm
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


CHINESE = "# 水\n\n水泵把井里的水抽到屋顶上的水箱里直到浮子把它关掉为止然后水流进厨房\n"
ENGLISH = "# Water\n\nThe pump lifts the water from the well into the tank on the roof of the house.\n"


def test_a_status_says_that_a_folder_came_to_be_written_in_another_language(
    new_service: NewService, root: Path
) -> None:
    folder = root / "changing"
    folder.mkdir()
    for name in TEXTS:
        (folder / f"{name}.md").write_text(ENGLISH)
    (folder / "data.json").write_text('{"deutsch": "Die Pumpe fördert das Wasser aus dem tiefen Brunnen."}')
    env = {"DEFAULT_EMBEDDING_MODEL": BY_LANGUAGE, "LOCAL_SOURCE_ROOTS": str(root)}
    with new_service(with_one_worker, **env) as here:
        tool = here.local_tool(folder)

        def warning(**changed: str) -> str | None:
            for name, text in changed.items():
                (folder / f"{name}.md").write_text(text)
            here.post(f"{TOOLS}/{tool}/reindex", {})
            said: str | None = here.wait(tool)["warning"]
            return said

        assert here.wait(tool)["warning"] is None
        # one of three texts is not most of them
        assert warning(wasser=TEXTS["wasser"]) is None
        said = warning(brot=CHINESE)
        assert said is not None
        assert said.startswith("67% of the text is in other languages")
        assert f"set config.embedding_model to {e5.MODEL}" in said
        assert here.get(f"{TOOLS}/{tool}")["index"]["model"] == minilm.MODEL
        assert warning(wasser=ENGLISH) is None
        assert warning(wasser=TEXTS["wasser"]) == said
        # who names a model knows it
        body = {"config": {"embedding_model": minilm.MODEL}}
        checked(here.client.patch(f"{TOOLS}/{tool}", json=body), 202)
        assert here.wait(tool)["warning"] is None

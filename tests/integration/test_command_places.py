"""`foldex search` over several paths, over a folder above indexed ones, and over everything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.commanding import foldex, on_terminal, refused
from tests.service import TOOLS, Service

ANIMALS = ("axolotl", "badger", "condor")


@pytest.fixture(scope="module")
def above(root: Path, running: Service) -> Path:
    """A folder that is not indexed, above three indexed ones with a word of their own and a common one."""
    above = root / "zoo"
    for animal in ANIMALS:
        (above / animal / "deep").mkdir(parents=True)
        (above / animal / "a.md").write_text(f"# {animal}\n\nThe {animal} sleeps in its quokka house.\n")
        (above / animal / "deep" / "b.py").write_text(f"def feed_{animal}():\n    return 'quokka'\n")
        assert foldex(running, "index", str(above / animal)).returncode == 0
    return above


def files(stdout: str) -> set[str]:
    return {line.split(":")[0] for line in stdout.splitlines() if line and not line.startswith(" ")}


def test_several_paths_are_searched_and_the_best_hits_shown(running: Service, above: Path) -> None:
    both = foldex(running, "search", "quokka", "axolotl", "badger/deep", "axolotl", cwd=above)
    assert both.returncode == 0
    assert files(both.stdout) == {"axolotl/a.md", "axolotl/deep/b.py", "badger/deep/b.py"}
    assert both.stderr == ""
    best = foldex(running, "search", "badger", "axolotl", "badger", "-k", "1", cwd=above)
    assert [line.split("/")[0] for line in best.stdout.splitlines()[:1]] == ["badger"]
    text = foldex(running, "search", "quokka", "axolotl", "condor", "-t", "py", "--path", "deep/*", cwd=above)
    assert files(text.stdout) == {"axolotl/deep/b.py", "condor/deep/b.py"}


def test_hits_of_several_tools_are_one_document(running: Service, above: Path) -> None:
    found = json.loads(foldex(running, "search", "quokka", "axolotl", "condor", "--json", cwd=above).stdout)
    ids = {tool["name"]: tool["tool_id"] for tool in running.client.get(TOOLS, params={"limit": 1000}).json()["items"]}
    assert {hit["tool_id"] for hit in found["results"]} == {ids["axolotl"], ids["condor"]}
    scores = [hit["score"] for hit in found["results"]]
    assert (len(scores), scores) == (found["total_results"], sorted(scores, reverse=True))
    one = json.loads(foldex(running, "search", "quokka", "axolotl", "--json", cwd=above).stdout)
    assert "coverage" in one


def test_a_folder_above_indexed_ones_stands_for_them(running: Service, above: Path) -> None:
    for arguments in (("quokka", "."), ("quokka",), ("quokka", str(above))):
        done = foldex(running, "search", *arguments, cwd=above)
        assert files(done.stdout) == {f"{animal}/{name}" for animal in ANIMALS for name in ("a.md", "deep/b.py")}
        assert done.stderr == f"{above} is not indexed, but 3 folders below it: searching there.\n"


def test_lines_and_definitions_are_found_above_indexed_folders(running: Service, above: Path) -> None:
    below = f"{above} is not indexed, but 3 folders below it: searching there.\n"
    for arguments in ((), (str(above),), ("badger", ".")):
        done = foldex(running, "grep", "-l", "quokka", *arguments, cwd=above)
        assert files(done.stdout) == {f"{animal}/{name}" for animal in ANIMALS for name in ("a.md", "deep/b.py")}
        # a folder that is named twice is searched once
        assert (done.returncode, len(done.stdout.splitlines()), done.stderr) == (0, 6, below)
    found = json.loads(foldex(running, "grep", "quokka", "--json", cwd=above).stdout)["items"]
    assert sorted(hit["file_path"] for answer in found for hit in answer["hits"]) == ["a.md"] * 3 + ["deep/b.py"] * 3
    done = foldex(running, "symbols", "--prefix", "feed_", cwd=above)
    assert [line for line in done.stdout.splitlines() if "deep/b.py" not in line] == []
    assert (len(done.stdout.splitlines()), done.stderr) == (3, below)
    most = foldex(running, "symbols", "--prefix", "feed_", "--limit", "2", cwd=above)
    assert len(most.stdout.splitlines()) == 2
    assert "There are more definitions" in most.stderr
    assert len(json.loads(foldex(running, "symbols", "feed_condor", "--json", cwd=above).stdout)["items"]) == 1


@pytest.mark.parametrize(("options", "times"), [((), 1), (("--config", "exclude=inner/**"), 2)])
def test_a_folder_within_another_one_is_searched_once(
    running: Service, root: Path, options: tuple[str, ...], times: int
) -> None:
    outer = root / f"nest-{times}" / "outer"
    (outer / "inner").mkdir(parents=True)
    (outer / "inner" / "a.md").write_text("# Gannet\n\nThe gannet dives.\n")
    assert foldex(running, "index", str(outer), *options).returncode == 0
    assert foldex(running, "index", str(outer / "inner")).returncode == 0
    done = foldex(running, "grep", "-l", "dives", cwd=outer.parent)
    assert len(done.stdout.splitlines()) == 1
    assert f"but {times} folder" in done.stderr


def test_without_a_path_an_indexed_folder_is_searched_alone(running: Service, above: Path) -> None:
    done = foldex(running, "search", "quokka", cwd=above / "badger" / "deep")
    assert (files(done.stdout), done.stderr) == ({"b.py"}, "")


def test_without_a_path_everything_is_searched_elsewhere(running: Service, above: Path, tmp_path: Path) -> None:
    done = foldex(running, "search", "quokka", "-k", "100", cwd=tmp_path)
    assert {f"{above}/{animal}/a.md" for animal in ANIMALS} <= files(done.stdout)
    assert f"{tmp_path} is not indexed (`foldex index .`): searching all" in done.stderr
    # a folder that is named is not replaced by others
    assert "not indexed" in refused(foldex(running, "search", "quokka", ".", cwd=tmp_path))


def test_an_error_of_one_path_is_shown_and_the_others_are_searched(running: Service, above: Path) -> None:
    done = foldex(running, "search", "quokka", "axolotl", "./gone", "badger/none.md", cwd=above)
    assert (done.returncode, files(done.stdout)) == (2, {"axolotl/a.md", "axolotl/deep/b.py"})
    assert [line[:6] for line in done.stderr.splitlines()] == ["Error:", "Error:"]
    refused(foldex(running, "search", "quokka", "./gone", cwd=above))
    nothing = foldex(running, "search", "quokka", "axolotl", "badger", "-t", "pdf", cwd=above)
    assert (nothing.returncode, nothing.stdout) == (1, "")


def test_who_is_sure_has_the_folder_itself_indexed(running: Service, root: Path) -> None:
    outer = root / "outer"
    (outer / "inner").mkdir(parents=True)
    (outer / "inner" / "a.md").write_text("A numbat inside.\n")
    (outer / "b.md").write_text("A numbat outside.\n")
    assert foldex(running, "index", str(outer / "inner")).returncode == 0
    asked = on_terminal(running, "search", "numbat", cwd=outer)
    assert "inner/a.md" in asked.stdout
    assert "b.md" not in asked.stdout
    done = foldex(running, "search", "numbat", "--yes", cwd=outer)
    assert files(done.stdout) == {"b.md", "inner/a.md"}

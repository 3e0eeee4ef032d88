"""What is told of a command that is used in a way that it does not know."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import pytest
from click.testing import CliRunner

from api.cli.commands import main
from schemas.content.document import Kind
from schemas.reason import FileStatus


def test_the_folder_that_watch_does_not_take_leads_to_the_command_that_does() -> None:
    done = CliRunner().invoke(main, ["watch", "/srv/notes"])
    assert done.exit_code == 2
    assert "to follow one, run `foldex index FOLDER --watch`" in done.output


@pytest.mark.parametrize("words", [("keys", "create", " "), ("grants", "add", "", "/srv/docs")])
def test_a_project_without_a_name_gets_nothing(words: tuple[str, ...]) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2
    assert "PROJECT_ID is empty" in done.output


@pytest.mark.parametrize("place", ["s3://", "s3:///"])
def test_an_address_without_a_bucket_is_refused(place: str) -> None:
    done = CliRunner().invoke(main, ["index", place, "--server", "http://127.0.0.1:1"])
    assert done.exit_code == 2
    assert done.output == f"Error: {place} names no bucket; write it as s3://bucket/prefix.\n"


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (("files", "--status", "bogus"), [each.value for each in FileStatus]),
        (("symbols", "x", "--kind", "bogus"), get_args(Kind)),
    ],
)
def test_a_value_that_is_not_known_is_answered_with_those_that_are(
    words: tuple[str, ...], values: Sequence[str]
) -> None:
    done = CliRunner().invoke(main, [*words, "--server", "http://127.0.0.1:1"])
    assert done.exit_code == 2
    assert ", ".join(map(repr, values)) in done.output

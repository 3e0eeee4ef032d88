"""What is told of a command that is used in a way that it does not know."""

from __future__ import annotations

from click.testing import CliRunner

from api.cli.commands import main


def test_the_folder_that_watch_does_not_take_leads_to_the_command_that_does() -> None:
    done = CliRunner().invoke(main, ["watch", "/srv/notes"])
    assert done.exit_code == 2
    assert "to follow one, run `foldex index FOLDER --watch`" in done.output

"""`foldex`: the commands of operators, and the group of all commands.

Heavy libraries are imported where they are used: `foldex --help` and searches start fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from api.cli.database import open_database, read_settings
from api.cli.invocation import FOUND, NOTHING, VerbFailed, json_option
from api.cli.keys_and_grants import grants, keys
from api.cli.terminal import output
from api.cli.terminal.ending import prepare_streams, run_to_end
from api.cli.terminal.help_sections import HelpSections
from api.cli.verbs import VERBS
from api.stack.record import installation_home
from schemas.release import RELEASE
from schemas.wording import amount

if TYPE_CHECKING:
    from uuid import UUID


EXAMPLES = """\b
Examples:
  foldex index ~/notes
  foldex search "what did we decide" ~/notes
  foldex grep TODO . -i
  foldex status

\b
Exit status:
  0    something was found, or done
  1    nothing was found; fsck: the vectors differ; demo: indexing failed
  2    an error, told in one sentence on standard error
  130  Ctrl-C; indexing and building go on in the background
"""


@click.group(
    cls=HelpSections,
    first=("Folders and searches", VERBS),
    rest="Operation",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXAMPLES,
)
@click.version_option(RELEASE, prog_name="foldex")
@click.pass_context
def main(context: click.Context) -> None:
    """Make folders searchable."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        context.color = False


@main.command()
@click.option("--no-migrate", is_flag=True, help="Leave that to `foldex migrate`, and answer 503 until it has run.")
def serve(*, no_migrate: bool) -> None:
    """Serve HTTP on API_HOST and API_PORT.

    Migrates the database first.
    """
    import structlog

    from worker.machine import logs
    from worker.machine.privacy import close_home, keep_private
    from worker.machine.scratch import Scratch
    from worker.resources import check_directories
    from worker.settings import Settings
    from worker.state.connections import Application, name_process
    from worker.state.migrate import migrate
    from worker.stores import store_directories

    settings = Settings()
    if settings.auth == "off" and settings.api_host not in {"127.0.0.1", "localhost", "::1"}:
        raise VerbFailed("AUTH=off serves this machine only; set AUTH=on, or API_HOST=127.0.0.1.")
    keep_private(settings.debuggers)
    close_home(settings.foldex_home, store_directories())
    logs.configure(settings.log_level)
    for sentence in settings.misspelt(os.environ):
        structlog.get_logger().warning(sentence)
    name_process(Application.API)
    if not no_migrate:
        migrate(settings.session_url)
    with _refused_directories():
        check_directories(settings)
    with ExitStack() as stack:
        if settings.api_processes > 1:
            # where the processes count requests together; the library reads it when it is imported
            os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(stack.enter_context(Scratch()))
        from api.http import server
        from api.main import create_app

        serving = server.Serving(partial(create_app, settings), settings.api_host, settings.api_port)
        server.serve(serving, settings.api_processes)


@main.command(context_settings={"allow_extra_args": True})
@click.pass_context
def watch(context: click.Context) -> None:
    """Watch the folders of tools with `config.watch`.

    If several such processes run, only one watches. To make a tool that follows its folder, run
    `foldex index FOLDER --watch`.
    """
    if context.args:
        raise click.UsageError("`foldex watch` takes no folder; to follow one, run `foldex index FOLDER --watch`.")
    import signal
    from threading import Event

    from worker.hosts.presence import Presence
    from worker.machine import logs
    from worker.machine.privacy import keep_private
    from worker.resources import Resources
    from worker.settings import Settings
    from worker.state.connections import Application, name_process
    from worker.upkeep.watch import run as watch_folders

    settings, stop = Settings(), Event()
    keep_private(settings.debuggers)
    logs.configure(settings.log_level)
    for signal_number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(signal_number, lambda *_: stop.set())
    name_process(Application.WATCH)
    resources = Resources(settings)
    presence = Presence(settings, "watch")
    presence.keep(resources.pool, stop)
    watch_folders(resources, stop)
    presence.end()


@main.command(epilog="\b\nExamples:\n  foldex up\n  foldex up -d && foldex logs -f")
@click.option("-d", "--detach", is_flag=True, help="Return once it answers; it runs until `foldex down`.")
def up(*, detach: bool) -> None:
    """Run everything on this machine until Ctrl-C.

    Starts Postgres, Redis, API, workers, beat, watch and Flower. Prints the address, and a link that opens the page
    once as yours: there you may add any folder.
    """
    if detach:
        from api.cli.invocation import Invocation
        from api.cli.service.connection import always, connect, page_of

        with connect(Invocation(None, None, None), start_if=always) as service:
            click.echo(service.url)
            click.echo(f"Page  {page_of(service)}", err=True)
        return
    from api.stack.embedded import up as run
    from api.stack.processes import StackError
    from worker.machine.privacy import keep_private
    from worker.settings import Settings

    keep_private()
    try:
        run(Settings(), click.echo)
    except StackError as error:
        raise VerbFailed(str(error)) from error


@main.command()
@click.option("--folder", metavar="PATH", help="Folder to index; default: this repository without its tests.")
@click.option("--query", "queries", multiple=True, help="Query to answer; repeatable; default: three examples.")
def demo(folder: str | None, queries: tuple[str, ...]) -> None:
    """Start everything, index a folder, show answers, and stop.

    The exit status is 1 if indexing failed.
    """
    from api.cli.demo import run
    from api.cli.service.tool_lookup import check_folder
    from api.stack.processes import StackError
    from worker.machine.privacy import keep_private
    from worker.settings import Settings

    # a shell that is not bash does not expand the `~` of `make demo FOLDER=~/notes`
    place = None if folder is None else Path(check_folder(folder))
    keep_private()
    try:
        sys.exit(run(Settings(), place, queries))
    except StackError as error:
        raise VerbFailed(str(error)) from error


@main.command()
@click.option("--check", is_flag=True, help="Change nothing; the exit status is 1 if migrations are missing.")
def migrate(*, check: bool) -> None:
    """Migrate the database to this release.

    Prints each migration that it applies. Several may run at once, and one that is killed may run again.
    """
    from worker.state import schema_version
    from worker.state.connections import BRIEF, BoundedConnection
    from worker.state.migrate import migrate as run

    url = read_settings().session_url
    if check:
        with BoundedConnection.open(url, BRIEF) as connection:
            lacking = schema_version.missing(connection)
        if lacking:
            click.echo(
                f"The database lacks {amount(len(lacking), 'migration')}: {', '.join(lacking)}; run `foldex migrate`."
            )
            sys.exit(NOTHING)
    else:
        run(url, lambda name, seconds: click.echo(f"Applied {name} in {seconds:.1f} s."))
    click.echo("The database is up to date.")


@main.command()
@click.argument("tool_id", type=click.UUID, required=False)
@click.option("--all", "check_all", is_flag=True, help="Check every index.")
@click.option("--repair", is_flag=True, help="Repair what differs.")
@json_option
def fsck(tool_id: UUID | None, check_all: bool, repair: bool, as_json: bool) -> None:
    """Compare the vectors of TOOL_ID with Postgres, id by id.

    Effective access lists of the nodes in its project are compared with the lists that are set. The exit status is 1 if
    something differs and was not repaired.
    """
    if check_all == (tool_id is not None):
        raise click.UsageError("Give either a TOOL_ID or --all.")
    from api.cli.fsck import check, lines
    from worker.machine import logs
    from worker.resources import Resources, check_directories
    from worker.state.connections import BRIEF, BoundedConnection

    logs.configure("ERROR")
    settings = read_settings()
    # fails at once, where a pool would go on trying
    BoundedConnection.open(settings.session_url, BRIEF).close()
    with _refused_directories():
        check_directories(settings)
    findings = []
    for found in check(Resources(settings), tool_id, repair=repair):
        findings.append(found)
        for line in () if as_json else lines(found):
            click.echo(line)
    if as_json:
        output.print_records(findings)
    elif not findings:
        click.echo("There is no index yet.")
    sys.exit(FOUND if all(found.ok for found in findings) else NOTHING)


@main.command()
@click.argument("kept", metavar="{lancedb|objects}", type=click.Choice(("lancedb", "objects")))
@click.option("--accept-loss", is_flag=True, help="Give up contents that the directory lacks.")
@json_option
def adopt(kept: str, accept_loss: bool, as_json: bool) -> None:
    """Let this machine's directory replace the one that was lost.

    It holds the installation's vectors or contents from then on. Run it where the other directory is lost, or belongs
    to an installation that is gone. Processes that see another directory refuse it.
    """
    from worker.resources import directories_of

    with open_database() as pool, _refused_directories():
        from worker.state.pool import autocommit

        directory = directories_of(read_settings(), lambda: autocommit(pool))[kept]
        directory.adopt(accept_loss=accept_loss)
    if as_json:
        output.print_record({"kept": kept, "directory": str(directory.path)})
        return
    click.echo(f"{directory.path} holds this installation's {directory.kind.what} now.")
    if directory.kind.is_rebuilt:
        click.echo("Run `foldex fsck --all --repair` to write what it lacks.")


@contextmanager
def _refused_directories() -> Iterator[None]:
    """Let a refused directory end the command with one sentence."""
    from schemas.errors import ContentsElsewhere, VectorsElsewhere

    try:
        yield
    except (VectorsElsewhere, ContentsElsewhere) as error:
        raise VerbFailed(error.message) from error


def run() -> None:
    """Run the command line, and end with its exit status. Errors are printed as plain messages."""
    # one installation, wherever the command is run
    os.environ["FOLDEX_HOME"] = str(installation_home())
    prepare_streams()
    sys.exit(run_to_end(main))


for each in (keys, grants, *VERBS):
    main.add_command(each)

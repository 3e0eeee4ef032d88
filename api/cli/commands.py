"""`foldex`: the commands of operators, and the group of all commands.

Heavy libraries are imported where they are used: `foldex --help` and searches start fast.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from api.cli.invocation import FOUND, NOTHING, VerbFailed
from api.cli.terminal import output
from api.cli.terminal.ending import ended, prepare_streams
from api.cli.terminal.help_sections import HelpSections
from api.cli.verbs import VERBS
from api.stack.record import environment, installation_home
from schemas.release import RELEASE

if TYPE_CHECKING:
    from uuid import UUID

    from worker.settings import Settings
    from worker.state.pool import Pool

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


#: For commands whose answers the HTTP API does not have.
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


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

    from worker import logs
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
    if settings.migrate_at_start == "on" and not no_migrate:
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

    from worker import logs
    from worker.hosts.presence import Presence
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


@main.command()
def up() -> None:
    """Run everything on this machine until Ctrl-C.

    Starts Postgres, Redis, API, workers, beat, watch and Flower.
    """
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

    url = _settings().session_url
    if check:
        with BoundedConnection.open(url, BRIEF) as connection:
            lacking = schema_version.missing(connection)
        if lacking:
            click.echo(f"The database lacks {len(lacking)} migrations: {', '.join(lacking)}; run `foldex migrate`.")
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

    The exit status is 1 if they differ and were not repaired.
    """
    if check_all == (tool_id is not None):
        raise click.UsageError("Give either a TOOL_ID or --all.")
    from api.cli.fsck import check, lines
    from worker import logs
    from worker.resources import Resources, check_directories
    from worker.state.connections import BRIEF, BoundedConnection

    logs.configure("ERROR")
    settings = _settings()
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

    with _database() as pool, _refused_directories():
        from worker.state.pool import autocommit

        directory = directories_of(_settings(), lambda: autocommit(pool))[kept]
        directory.adopt(accept_loss=accept_loss)
    if as_json:
        output.print_record({"kept": kept, "directory": str(directory.path)})
        return
    click.echo(f"{directory.path} holds this installation's {directory.kind.what} now.")
    if directory.kind.is_rebuilt:
        click.echo("Run `foldex fsck --all --repair` to write what it lacks.")


@main.group()
def keys() -> None:
    """Manage API keys; each belongs to one project."""


@keys.command("create")
@click.argument("project_id")
@click.option("--name", default="", help="What the key is for.")
@json_option
def create_key(project_id: str, name: str, as_json: bool) -> None:
    """Create a key for PROJECT_ID and show it once."""
    from worker.state.access import keys as rows

    _check_project(project_id)

    with _database() as pool:
        key_id, key = rows.create(pool, project_id, name)
    if as_json:
        output.print_record({"id": key_id, "project_id": project_id, "name": name, "key": key})
        return
    click.echo(f"{key}\n", nl=False)
    click.echo(f"Key {key_id} of project {project_id}. Save it now: it is not shown again.", err=True)


@keys.command("list")
@click.argument("project_id", required=False)
@json_option
def list_keys(project_id: str | None, as_json: bool) -> None:
    """List the keys of PROJECT_ID, or of all projects."""
    from worker.state.access import keys as rows

    with _database() as pool:
        found = rows.page(pool, project_id)
    if as_json:
        output.print_records(map(asdict, found))
    for key in () if as_json else found:
        state = f"revoked {key.revoked_at:%Y-%m-%d}" if key.revoked_at else "valid"
        click.echo(f"{key.id}  {key.project_id}  {state}  {key.created_at:%Y-%m-%d}  {key.name}")


@keys.command("revoke")
@click.argument("key_id", type=click.UUID)
@json_option
def revoke_key(key_id: UUID, as_json: bool) -> None:
    """Revoke the key with the id KEY_ID immediately."""
    from worker.state.access import keys as rows

    with _database() as pool:
        if not rows.revoke(pool, key_id):
            raise VerbFailed(f"No valid key has the id {key_id}; `foldex keys list` shows them.")
    if as_json:
        output.print_record({"id": key_id, "status": "revoked"})
    else:
        click.echo(f"Key {key_id} is revoked.")


@main.group()
def grants() -> None:
    """Manage what folders and buckets a project may read.

    A project's own nodes need no grant. With AUTH=off no grants are needed.
    """


@grants.command("add")
@click.argument("project_id")
@click.argument("place")
@json_option
def add_grant(project_id: str, place: str, as_json: bool) -> None:
    """Let PROJECT_ID read PLACE and everything below it.

    PLACE is an absolute path or s3://bucket/prefix. A path must also lie below LOCAL_SOURCE_ROOTS.
    """
    from schemas.content.source import source_at
    from worker.state.access import grants as rows

    _check_project(project_id)
    with _database() as pool, _place():
        added = rows.add(pool, project_id, place)
    if as_json:
        output.print_record({"project_id": project_id, "place": source_at(place).place, "added": added})
    else:
        click.echo(f"Project {project_id} may {'now' if added else 'already'} read {place}.")


@grants.command("list")
@click.argument("project_id", required=False)
@json_option
def list_grants(project_id: str | None, as_json: bool) -> None:
    """List the grants of PROJECT_ID, or of all projects, and folders that lead elsewhere now."""
    from worker.state.access import grants as rows

    with _database() as pool:
        found = [(row, row.leads_to) for row in rows.page(pool, project_id)]
    if as_json:
        output.print_records({**asdict(row), "leads_to": leads_to} for row, leads_to in found)
    for row, leads_to in () if as_json else found:
        led = f" -> {row.real_place}" if row.real_place not in {None, row.place} else ""
        now = f" (leads to {leads_to} now)" if leads_to not in {None, row.real_place} else ""
        click.echo(output.clean(f"{row.project_id}  {row.place}{led}{now}  {row.created_at:%Y-%m-%d}"))


@grants.command("remove")
@click.argument("project_id")
@click.argument("place")
@json_option
def remove_grant(project_id: str, place: str, as_json: bool) -> None:
    """Remove the grant of PLACE from PROJECT_ID.

    Indexed content stays searchable until its tools are deleted.
    """
    from worker.state.access import grants as rows

    with _database() as pool, _place():
        removed = rows.remove(pool, project_id, place)
    if removed is None:
        raise VerbFailed(f"Project {project_id} has no grant of {place}; `foldex grants list` shows them.")
    if as_json:
        output.print_record({"project_id": project_id, "place": removed, "removed": True})
    else:
        click.echo(f"Project {project_id} may no longer read {place}.")


def _check_project(project_id: str) -> None:
    if not project_id.strip():
        raise click.UsageError("PROJECT_ID is empty; give the id of a project.")
    # pydantic takes as long to import as a search takes
    from schemas.ids import addressable

    try:
        addressable(project_id)
    except ValueError as error:
        raise click.UsageError(f"PROJECT_ID {project_id!r} cannot be used: {error}.") from None


@contextmanager
def _place() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise click.UsageError("PLACE must be an absolute path or s3://bucket/prefix.") from error


@contextmanager
def _refused_directories() -> Iterator[None]:
    """Let a refused directory end the command with one sentence."""
    from schemas.errors import ContentsElsewhere, VectorsElsewhere

    try:
        yield
    except (VectorsElsewhere, ContentsElsewhere) as error:
        raise VerbFailed(error.message) from error


@contextmanager
def _database() -> Iterator[Pool]:
    """The migrated database: a key may be created before anything else has run."""
    from worker.state.migrate import migrate
    from worker.state.pool import open_pool
    from worker.state.schema_version import SchemaGate

    settings = _settings()
    if settings.migrate_at_start == "on":
        migrate(settings.session_url)
    with open_pool(settings.database, gate=SchemaGate()) as pool:
        yield pool


def _settings() -> Settings:
    """Settings from the environment, completed by those of the running embedded stack."""
    from worker.settings import Settings

    settings = Settings()
    stack = {name.lower(): value for name, value in environment(settings.foldex_home).items()}
    missing = (Settings.model_fields.keys() & stack.keys()) - settings.model_fields_set
    return Settings.model_validate({name: stack[name] for name in missing})


def run() -> None:
    """Run the command line, and end with its exit status. Errors are printed as plain messages."""
    # one installation, wherever the command is run
    os.environ["FOLDEX_HOME"] = str(installation_home())
    prepare_streams()
    sys.exit(ended(main))


for verb in VERBS:
    main.add_command(verb)

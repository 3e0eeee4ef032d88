"""The commands for what callers may do: keys, and what projects may read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click

from api.cli.database import open_database
from api.cli.invocation import VerbFailed, json_option
from api.cli.terminal import output
from schemas.scopes import MAX_NAME, SCOPES, checked, duration, is_name, lifetime

if TYPE_CHECKING:
    from uuid import UUID

    from schemas.access import ApiKey


def _parsed_by(parse: Callable[[str], timedelta]) -> Callable[..., timedelta | None]:
    def parsed(_: click.Context, __: click.Parameter, given: str | None) -> timedelta | None:
        try:
            return None if given is None else parse(given)
        except ValueError as error:
            raise click.BadParameter(f"{error}.") from None

    return parsed


_duration, _lifetime = _parsed_by(duration), _parsed_by(lifetime)


@click.group()
def keys() -> None:
    """Manage API keys; each belongs to one project."""


@keys.command("create")
@click.argument("project_id")
@click.option("--name", default="", help="What the key is for.")
@click.option("--scope", "scopes", multiple=True, type=click.Choice(SCOPES), help="What it allows; several add up.")
@click.option("--expires", metavar="TIME", callback=_lifetime, help="How long it is valid, such as 30d (s, m, h, d).")
@json_option
def create_key(
    project_id: str, name: str, scopes: tuple[str, ...] = (), expires: timedelta | None = None, *, as_json: bool
) -> None:
    """Create a key for PROJECT_ID and show it once.

    The scope search reads. write also manages nodes, uploads and tools. admin does everything, and is the default.
    impersonate and all_documents add to one of these.
    """
    from worker.state.access import keys as rows

    _check_project(project_id)
    if not is_name(name.strip()):
        raise click.UsageError(f"--name has at most {MAX_NAME} characters, without line breaks; shorten it.")
    try:
        wanted = checked(scopes or ("admin",))
    except ValueError as error:
        raise click.UsageError(f"--scope: {error}.") from None
    with open_database() as pool, _refused():
        made = rows.create(pool, project_id, name.strip(), wanted, expires)
    _show_once(made, as_json=as_json)


@keys.command("list")
@click.argument("project_id", required=False)
@json_option
def list_keys(project_id: str | None, as_json: bool) -> None:
    """List the keys of PROJECT_ID, or of all projects: scopes, state, last use and name."""
    from worker.state.access import keys as rows

    with open_database() as pool:
        found = list(rows.every(pool, project_id))
    if as_json:
        output.print_records(found)
    for key in () if as_json else found:
        used = f"used {_minute(key.last_used_at)}" if key.last_used_at else "not used"
        parts = (str(key.id), key.project_id, _state(key), f"{key.created_at:%Y-%m-%d}", ",".join(key.scopes), used)
        click.echo(output.clean("  ".join((*parts, key.name))))
    if not (found or as_json):
        whose = "No project has a key" if project_id is None else f"Project {project_id} has no key"
        output.note(f"{whose}; `foldex keys create` makes one.")


@keys.command("rotate")
@click.argument("key_id", type=click.UUID)
@click.option("--overlap", metavar="TIME", callback=_duration, help="How long the old key goes on: 1d if not given.")
@click.option(
    "--expires", metavar="TIME", callback=_lifetime, help="How long the new key is valid; else as the old one."
)
@json_option
def rotate_key(key_id: UUID, overlap: timedelta | None, expires: timedelta | None, as_json: bool) -> None:
    """Create a key with the name and scopes of KEY_ID, which ends after --overlap, and show it once."""
    from worker.state.access import keys as rows

    with open_database() as pool, _refused():
        made = rows.rotate(pool, key_id, overlap, expires)
    _show_once(made, as_json=as_json)


@keys.command("revoke")
@click.argument("key_id", type=click.UUID)
@json_option
def revoke_key(key_id: UUID, as_json: bool) -> None:
    """Revoke the key with the id KEY_ID immediately."""
    from worker.state.access import keys as rows

    with open_database() as pool, _refused():
        revoked = rows.revoke(pool, key_id)
    if revoked.was_revoked:
        raise VerbFailed(f"The key {key_id} was revoked before; `foldex keys list` shows which are valid.")
    if as_json:
        output.print_record({"id": key_id, "status": "revoked", "admin_keys": revoked.admin_keys})
        return
    click.echo(f"Key {key_id} is revoked.")
    if not revoked.admin_keys:
        project = revoked.row.project_id
        output.note(f"Project {project} has no key with the scope admin left; `foldex keys create` makes one.")


def _show_once(made: tuple[ApiKey, str], *, as_json: bool) -> None:
    row, key = made
    if as_json:
        output.print_record({**row.model_dump(), "key": key})
        return
    click.echo(key)
    until = f", valid until {_minute(row.expires_at)}" if row.expires_at else ""
    told = f"Key {row.id} of project {row.project_id} with the scopes {', '.join(row.scopes)}{until}."
    click.echo(f"{output.clean(told)} Save it now: it is not shown again.", err=True)


def _state(key: ApiKey) -> str:
    if key.revoked_at is not None:
        return f"revoked {key.revoked_at:%Y-%m-%d}"
    if key.expires_at is None:
        return key.state
    return f"{'expired' if key.state == 'expired' else 'valid until'} {_minute(key.expires_at)}"


def _minute(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


@contextmanager
def _refused() -> Iterator[None]:
    from schemas.errors import FoldexError

    try:
        yield
    except FoldexError as error:
        raise VerbFailed(f"{error.message} `foldex keys list` shows them all.") from None


@click.group()
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
    with open_database() as pool, _place():
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

    with open_database() as pool:
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

    with open_database() as pool, _place():
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

"""The commands for what callers may do: keys, and what projects may read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from api.cli.database import open_database
from api.cli.invocation import VerbFailed, json_option
from api.cli.terminal import output

if TYPE_CHECKING:
    from uuid import UUID


@click.group()
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

    with open_database() as pool:
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

    with open_database() as pool:
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

    with open_database() as pool:
        if not rows.revoke(pool, key_id):
            raise VerbFailed(f"No valid key has the id {key_id}; `foldex keys list` shows them.")
    if as_json:
        output.print_record({"id": key_id, "status": "revoked"})
    else:
        click.echo(f"Key {key_id} is revoked.")


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

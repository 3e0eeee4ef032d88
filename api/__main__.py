"""The command line: `foldex --help`."""

from __future__ import annotations

import sys
from pathlib import Path
from uuid import UUID

import click

from schemas.errors import FoldexError
from worker import logs
from worker.settings import Settings


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option("0.1.0", prog_name="foldex")
def main() -> None:
    """Turn a folder into something that can be searched."""


@main.command()
def serve() -> None:
    """Answer HTTP on API_HOST and API_PORT, after bringing the database up to date."""
    import uvicorn

    from api.main import create_app
    from worker.state.migrate import migrate

    settings = Settings()
    if settings.auth == "off" and settings.api_host not in {"127.0.0.1", "localhost", "::1"}:
        raise click.ClickException("AUTH=off is for this machine only: set AUTH=on, or API_HOST=127.0.0.1.")
    logs.configure(settings.log_level)
    migrate(settings.database_url)
    app = create_app(settings)
    uvicorn.run(app, host=settings.api_host, port=settings.api_port, log_config=None, access_log=False)


@main.command()
def up() -> None:
    """Run everything on this machine until Ctrl-C: Postgres, Redis, API, workers, beat and Flower."""
    from api.stack import StackError
    from api.stack import up as run

    try:
        run(Settings(), click.echo)
    except StackError as error:
        raise click.ClickException(str(error)) from error


@main.command()
@click.option("--folder", type=click.Path(exists=True, file_okay=False, path_type=Path), help="Folder to index.")
@click.option("--query", "queries", multiple=True, help="What to look for; may be given several times.")
def demo(folder: Path | None, queries: tuple[str, ...]) -> None:
    """Start everything, index a folder (this repository without one), show answers, and stop."""
    from api.demo import run
    from api.stack import StackError

    try:
        sys.exit(run(Settings(), folder, queries))
    except StackError as error:
        raise click.ClickException(str(error)) from error


@main.command()
def migrate() -> None:
    """Bring the database's tables up to this release."""
    from worker.state.migrate import migrate as run

    run(Settings().database_url)
    click.echo("The database is up to date.")


@main.group()
def keys() -> None:
    """API keys; each belongs to one project."""


@keys.command("create")
@click.argument("project_id")
@click.option("--name", default="", help="What the key is for.")
def create_key(project_id: str, name: str) -> None:
    """Make a key for PROJECT_ID and show it, once."""
    from worker.state import keys as rows
    from worker.state import open_pool

    with open_pool(_database_url()) as pool:
        key_id, key = rows.create(pool, project_id, name)
    click.echo(f"{key}\n", nl=False)
    click.echo(f"Key {key_id} of project {project_id}. It is not shown again.", err=True)


@keys.command("list")
@click.argument("project_id", required=False)
def list_keys(project_id: str | None) -> None:
    """List the keys of PROJECT_ID, or of all projects."""
    from worker.state import keys as rows
    from worker.state import open_pool

    with open_pool(_database_url()) as pool:
        for row in rows.page(pool, project_id):
            state = f"revoked {row['revoked_at']:%Y-%m-%d}" if row["revoked_at"] else "valid"
            click.echo(f"{row['id']}  {row['project_id']}  {state}  {row['created_at']:%Y-%m-%d}  {row['name']}")


@keys.command("revoke")
@click.argument("key_id", type=click.UUID)
def revoke_key(key_id: UUID) -> None:
    """End the key with the id KEY_ID at once."""
    from worker.state import keys as rows
    from worker.state import open_pool

    with open_pool(_database_url()) as pool:
        if not rows.revoke(pool, key_id):
            raise click.ClickException(f"There is no valid key {key_id}; `foldex keys list` shows them.")
    click.echo(f"Key {key_id} is revoked.")


def _database_url() -> str:
    """The database of the environment, or else of the embedded stack that is up."""
    from api.stack import environment

    settings = Settings()
    if "database_url" in settings.model_fields_set:
        return settings.database_url
    return environment(settings.foldex_home).get("DATABASE_URL", settings.database_url)


if __name__ == "__main__":
    try:
        main()
    except FoldexError as problem:
        sys.exit(problem.message)

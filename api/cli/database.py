"""The settings and the database of commands that need no service."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from api.stack.record import environment

if TYPE_CHECKING:
    from worker.settings import Settings
    from worker.state.pool import Pool


@contextmanager
def open_database() -> Iterator[Pool]:
    """The database, whose tables are made if it is new: a key may be created before anything else has run.

    Raises `SchemaBehind` if it lacks migrations.
    """
    from worker.state.migrate import migrate
    from worker.state.pool import open_pool
    from worker.state.schema_version import SchemaGate

    settings = read_settings()
    migrate(settings.session_url, only_new=True)
    with open_pool(settings.database, gate=SchemaGate()) as pool:
        yield pool


def read_settings() -> Settings:
    """Settings from the environment, completed by those of the running embedded stack."""
    from worker.settings import Settings

    settings = Settings()
    stack = {name.lower(): value for name, value in environment(settings.foldex_home).items()}
    missing = (Settings.model_fields.keys() & stack.keys()) - settings.model_fields_set
    return Settings.model_validate({name: stack[name] for name in missing})

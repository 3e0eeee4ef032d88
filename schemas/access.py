"""Visible access of a caller, and the keys of a project, as the API returns them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, WithJsonSchema

from schemas import fields, scopes
from schemas.scopes import DURATION, MAX_NAME, NAME, SCOPES, Scope


def _parsed_by(parse: Callable[[str], timedelta]) -> BeforeValidator:
    def parsed(given: object) -> timedelta:
        if not isinstance(given, str):
            raise ValueError("a duration is a text such as 30d")  # noqa: TRY004 # pydantic turns a ValueError into a fault
        return parse(given)

    return BeforeValidator(parsed)


_SCHEMA = WithJsonSchema({"type": "string", "pattern": DURATION})
Overlap = Annotated[timedelta, _parsed_by(scopes.duration), _SCHEMA]
Lifetime = Annotated[timedelta, _parsed_by(scopes.lifetime), _SCHEMA]
KeyName = Annotated[str, StringConstraints(strip_whitespace=True, max_length=MAX_NAME, pattern=NAME)]
Scopes = Annotated[list[Scope], Field(max_length=len(SCOPES)), AfterValidator(scopes.checked)]

KeyId = Annotated[UUID, Field(description="Id of the key.", examples=["3e7a4a0e-41f7-4a9c-9a55-7f0c5a7d1b22"])]


class Access(BaseModel):
    """The projects that a caller may see, and where the operator's page of tasks is."""

    project_id: str | None = Field(
        description="Project of the key; null with AUTH=off, where a project exists once it is named.",
        examples=["project-1"],
    )
    projects: list[str] = Field(
        description="Projects with tools that the caller may see, at most 1,000; the key's own one in any case.",
        examples=[["project-1"]],
    )
    scopes: list[Scope] = Field(
        description="What the caller may do; `write` includes `search`, and `admin` includes both. With AUTH=off: all.",
        examples=[["search", "write"]],
    )
    principals: int | None = Field(
        description="How many principals the caller acts for, named by its token or by `Foldex-Principals`; null: it "
        "acts for itself.",
        examples=[2],
    )
    flower_url: str | None = Field(
        description="Address of Flower, which shows the tasks of the workers; null unless FLOWER_URL is set.",
        examples=["http://127.0.0.1:5555"],
    )


class ApiKey(BaseModel):
    """A key, without itself."""

    id: KeyId
    project_id: fields.ProjectId
    name: str = Field(description="What the key is for.", examples=["ingest"])
    scopes: list[str] = Field(
        description="What it was made for; `write` includes `search`, and `admin` includes both.", examples=[["write"]]
    )
    state: Literal["valid", "expired", "revoked"] = Field(description="Whether it opens anything.")
    created_at: fields.CreatedAt
    expires_at: datetime | None = Field(
        description="From then on the key is refused; null: never.", examples=["2026-12-20T09:30:00Z"]
    )
    last_used_at: datetime | None = Field(
        description="Minute of its last use; null: it was not used since this was noted.",
        examples=["2026-11-20T09:41:00Z"],
    )
    revoked_at: datetime | None = Field(description="Since then the key is refused; null: it was not revoked.")
    replaced_by: UUID | None = Field(description="Id of the key that was made when this one was rotated; else null.")


class CreatedKey(ApiKey):
    """A new key. It is shown once."""

    key: str = Field(description="The key itself. No later answer has it.", examples=["fx_…"])


class NewKey(BaseModel):
    """A key to create."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"name": "ingest", "scopes": ["write"], "expires": "30d"}]}
    )

    name: KeyName = Field(default="", description="What the key is for: one line.")
    scopes: Scopes = Field(
        default=["admin"], description="What it allows. One of `search`, `write` and `admin` is needed."
    )
    expires: Lifetime | None = Field(
        default=None, description="How long it is valid, in s, m, h or d; null: until it is revoked.", examples=["30d"]
    )


class KeyRotation(BaseModel):
    """Request to replace a key by a new one."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"overlap": "1h"}]})

    overlap: Overlap | None = Field(
        default=None,
        description="How long the old key goes on, in s, m, h or d, but never longer than before; null: `1d`.",
        examples=["1h"],
    )
    expires: Lifetime | None = Field(
        default=None,
        description="How long the new key is valid; null: as long as the old one was to be.",
        examples=["30d"],
    )

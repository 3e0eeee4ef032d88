"""Nodes, and what an upload made of each file."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from pydantic import Field

from foldex_client.models.base import Model, Note


class Access(Model):
    """The projects that a caller may see."""

    project_id: str | None
    projects: list[str]
    #: A service before scopes does not tell them.
    scopes: list[str] = Field(default_factory=list)
    #: How many principals the caller acts for; None: it acts for itself.
    principals: int | None = None
    flower_url: str | None


class ApiKey(Model):
    """A key of a project, without itself. It opens something while its `state` is "valid"."""

    id: UUID
    project_id: str
    name: str
    scopes: list[str]
    state: str
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    replaced_by: UUID | None


class CreatedKey(ApiKey):
    """A new key. No later answer has its `key`."""

    key: str


class Place(Model):
    """A folder of the service's machine that may be indexed."""

    path: str
    name: str


class Places(Model):
    """A page of such folders. If there is a `next_cursor`, call again with it for those that follow."""

    items: list[Place]
    next_cursor: str | None
    path: str | None
    may_permit: bool


class HostProcess(Model):
    """A process of the service that runs."""

    name: str
    host: str
    role: str
    queues: list[str]
    release: str
    clock_seconds: float
    reaches: list[str]
    unseen_seconds: float


class HostFinding(Model):
    """Something that is wrong with a host, with the remedy."""

    what: str
    detail: str


class Hosts(Model):
    """The processes of the service on all hosts, and what is wrong with them."""

    processes: list[HostProcess]
    findings: list[HostFinding]


class Node(Model):
    """A node of a project's content tree, a folder or a file."""

    id: str
    project_id: str
    parent_id: str | None
    id_path: str
    name: str
    type: str
    size: int
    version: int
    created_at: datetime
    updated_at: datetime
    url: str | None = None
    metadata: dict[str, Any] | None = None
    acl: list[str] | None = None
    withheld: bool = False
    content: Any = None


class Uploaded(Model):
    """The result for one file of an upload: created, updated or refused."""

    file_id: str | None
    file_name: str
    file_path: str
    file_extension: str
    size: int
    outcome: str
    reason: str | None = None
    message: str | None = None


class Upload(Model):
    """The files of an upload, in the order in which they were sent."""

    items: list[Uploaded]
    tool_id: str | None = None
    index_error: Note | None = None

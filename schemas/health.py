"""Answers of the probes."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class Alive(BaseModel):
    """The process runs."""

    status: Literal["ok"] = Field(default="ok", description="Always `ok`.")


class Ready(BaseModel):
    """The service can answer."""

    status: Literal["ready"] = Field(default="ready", description="Always `ready`.")
    warning: str | None = Field(
        default=None,
        description="What the operator should do, such as freeing disk space or starting workers; absent if nothing.",
    )
    hosts: str | None = Field(
        default=None,
        description="The part of `warning` that names hosts whose clocks, settings or releases differ, or that do not "
        "reach a service; absent if there is none.",
    )


class HostProcess(BaseModel):
    """A process of Foldex that runs."""

    name: str = Field(
        description="What it does and the host that it runs on, as Celery names workers.",
        examples=["bulk@db-1-0a1b2c3d4e5f"],
    )
    host: str = Field(description="The host, by name and an id of its own.", examples=["db-1-0a1b2c3d4e5f"])
    role: Literal["api", "worker", "beat", "watch"] = Field(description="What the process is for.", examples=["worker"])
    queues: list[str] = Field(description="Queues from which a worker takes messages.", examples=[["bulk", "trees"]])
    release: str = Field(description="Release of Foldex.", examples=["1.0.0"])
    clock_seconds: float = Field(
        description="Seconds by which the clock of its host is ahead of Postgres'.", examples=[0.012]
    )
    reaches: list[str] = Field(description="Services that answered it lately.", examples=[["S3", "the broker"]])
    unseen_seconds: float = Field(description="Seconds since it last noted that it runs.", examples=[4.2])


class HostFinding(BaseModel):
    """Something that differs between hosts and should not, or that one of them lacks."""

    what: str = Field(
        description="`clock`, `release`, `settings`, `services` or `hosts`.",
        examples=["settings"],
    )
    detail: str = Field(
        description="The processes or hosts, and the remedy.",
        examples=["S3_BUCKET is not set for bulk@b-0a1b2c3d4e5f, but for 4 others; set the same there, and restart."],
    )


class Hosts(BaseModel):
    """The processes of Foldex on all hosts, and what is wrong with them."""

    processes: list[HostProcess] = Field(description="Those that noted within a minute that they run, at most 2,000.")
    findings: list[HostFinding] = Field(description="What is wrong, at most 21 findings; empty if nothing is.")

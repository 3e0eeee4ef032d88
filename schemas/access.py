"""What a caller may see, as the API returns it."""

from __future__ import annotations

from pydantic import BaseModel, Field


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
    flower_url: str | None = Field(
        description="Address of Flower, which shows the tasks of the workers; null unless FLOWER_URL is set.",
        examples=["http://127.0.0.1:5555"],
    )

"""The body of every error."""

from __future__ import annotations

from pydantic import BaseModel, Field


class InvalidField(BaseModel):
    """One field of a request that is not valid."""

    field: str = Field(description="Path of the field in the request, with dots.", examples=["top_k"])
    message: str = Field(description="What is wrong with it.", examples=["Input should be greater than or equal to 1"])


class Problem(BaseModel):
    """An error as of RFC 9457."""

    type: str = Field(default="about:blank", description="Always `about:blank`; see `code`.")
    title: str = Field(description="The HTTP status in words.", examples=["Not Found"])
    status: int = Field(description="The HTTP status, 400 to 599.", examples=[404])
    code: str = Field(description="Stable code of the error.", examples=["not_found"])
    detail: str = Field(
        description="One sentence that names the cause and the remedy.",
        examples=["There is no project 'project-2'; check the id, or use a key of that project."],
    )
    errors: list[InvalidField] | None = Field(
        default=None, description="The invalid fields, with `invalid_request` and `invalid_json`; otherwise absent."
    )

"""Folders of the service's machine that may be indexed, as the API returns them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from schemas.tool import Listing

#: Characters of a path, and of a token.
MAX_PATH, MAX_TOKEN = 4096, 200


class Place(BaseModel):
    """A folder that may be indexed."""

    path: str = Field(description="Real path of the folder.", examples=["/srv/docs"])
    name: str = Field(description="Last part of the path.", examples=["docs"])


class Places(Listing[Place]):
    """A page of folders, and whether the caller may add another one to them."""

    path: str | None = Field(
        description="Real path of the folder in which they are; null for those that are permitted.",
        examples=["/srv"],
    )
    may_permit: bool = Field(
        description="Whether this caller may permit another folder: its page was opened by the link of the stack.",
        examples=[False],
    )


class PlaceRequest(BaseModel):
    """A folder that shall be permitted."""

    path: str = Field(
        min_length=1,
        max_length=MAX_PATH,
        description="Absolute path of a folder of the service's machine; `~/` stands for the home of its user.",
        examples=["~/notes"],
    )

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"path": "~/notes"}]})


class LinkRequest(BaseModel):
    """The link that opened a page."""

    link: str = Field(
        min_length=1,
        max_length=MAX_TOKEN,
        description="Token of the link. It works once.",
        examples=["4hNMHmrtDVrQ9p1b3vYBzFZsKPxhjVYUmKtK0Gq3m7Y"],
    )

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"link": "4hNMHmrtDVrQ9p1b3vYBzFZsKPxhjVYUmKtK0Gq3m7Y"}]}
    )


class PageSession(BaseModel):
    """A session of a page. It ends when the stack is started again."""

    session: str = Field(
        description="Send it as the header `Foldex-Session`.",
        examples=["Zb7c0yT1lqYbJp4a1cXn2yq3HnO9o0w7yB5xk1m2n3o"],
    )

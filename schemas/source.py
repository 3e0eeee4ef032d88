"""Where content is and how it is chunked. Together these decide whether two tools share one index."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator


class NodesSource(BaseModel):
    """A node of the project's content tree (`content_node`) and everything below it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["nodes"] = "nodes"
    node_id: str = Field(min_length=1, max_length=512)
    json_pointer: str | None = Field(default=None, description="Narrows a single JSON node, RFC 6901.")


class LocalSource(BaseModel):
    """A directory below one of `LOCAL_SOURCE_ROOTS`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["local"]
    path: str = Field(min_length=1, max_length=4096, description="Absolute path of the directory.")

    @field_validator("path")
    @classmethod
    def _one_spelling(cls, path: str) -> str:
        if "\0" in path:
            raise ValueError("no path holds a NUL character; remove it")
        return path.rstrip("/") or "/"


class S3Source(BaseModel):
    """The objects of a bucket below a prefix, treated as a folder: `docs` and `docs/` mean the same."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Literal["s3"]
    bucket: str = Field(min_length=3, max_length=63)
    prefix: str = Field(default="", max_length=1024)

    @field_validator("prefix")
    @classmethod
    def _one_spelling(cls, prefix: str) -> str:
        return prefix if not prefix or prefix.endswith("/") else prefix + "/"


AnySource = Annotated[NodesSource | LocalSource | S3Source, Field(discriminator="kind")]


class ChunkSettings(BaseModel):
    """Sizes of chunks. They count the model's tokens with `unit="tokens"`, else characters.

    A text of fewer than `threshold` units stays one chunk if the model accepts it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    unit: Literal["tokens", "characters"] = "tokens"
    size: int = Field(default=512, ge=16, le=1_000_000)
    overlap: int = Field(default=64, ge=0)
    threshold: int = Field(default=0, ge=0)


class EmbedderProfile(BaseModel):
    """The embedding model with which an index is built. Vectors of different `precision` must not be mixed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    dimensions: int = Field(ge=1, le=10_752)
    precision: str = "float32"
    max_input_tokens: int = 8192

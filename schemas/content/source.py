"""A tool's source and chunking. Two tools with the same of both share one index."""

from __future__ import annotations

import os.path
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self, get_args
from urllib.parse import unquote

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, field_validator

#: Begins the place of a bucket's prefix.
S3 = "s3://"


class _SourceTraits(BaseModel):
    """Traits of a source that need no access to it. `worker.sources.registry` implements each kind.

    A *place* is what `foldex grants` names: a source of its kind may be read at it and below.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: The kind's name in messages.
    title: ClassVar[str]
    #: Whether edits through the API can start a run (`config.auto_reindex`).
    follows_edits: ClassVar[bool] = False
    #: Whether changes can be noticed (`config.watch`), and whether only by a queue of events.
    is_watchable: ClassVar[bool] = False
    needs_event_queue: ClassVar[bool] = False
    #: Whether an unlisted file is certainly gone. If not, most files of an index are never removed at once.
    removals_are_certain: ClassVar[bool] = False
    #: Whether a listing takes too long to be made for a grep.
    is_slow_to_list: ClassVar[bool] = False
    #: Whether the source states the types of its files. If not, a file's type comes from its name and content.
    states_types: ClassVar[bool] = False

    @classmethod
    def kind_name(cls) -> str:
        """The value of `kind`."""
        (name,) = get_args(cls.model_fields["kind"].annotation)
        return str(name)

    @classmethod
    def at_place(cls, _place: str) -> Self | None:
        """The source at a place; None if the place has another kind. Raises `ValueError` for an unusable one."""
        return None

    @property
    def place(self) -> str:
        """The canonical spelling of the source's place; "" for a kind that needs no grants."""
        return ""

    @property
    def shown_place(self) -> str:
        """The place of the source, for people."""
        return self.place

    @property
    def content_node(self) -> str | None:
        """The id of the source's node, if it is one of the project's content tree."""
        return None

    @property
    def directory(self) -> str | None:
        """The path of the source's directory, if it is one of this machine."""
        return None

    @property
    def narrowed_to(self) -> str | None:
        """The JSON pointer to the only part that is indexed, if not all is."""
        return None


class NodesSource(_SourceTraits):
    """A node of the project's content tree (`content_node`) and everything below it."""

    title = "A node"
    follows_edits = True
    is_watchable = True
    removals_are_certain = True
    states_types = True

    kind: Literal["nodes"] = Field(default="nodes", description="A node of the project.")
    node_id: str = Field(min_length=1, max_length=512, description="Id of the folder or file.", examples=["folder-001"])
    json_pointer: str | None = Field(
        default=None,
        max_length=10_000,
        description="JSON pointer (RFC 6901): index only this part of a single JSON node.",
    )

    @property
    def shown_place(self) -> str:
        """See `_SourceTraits`."""
        return f"node {self.node_id}{self.json_pointer or ''}"

    @property
    def content_node(self) -> str:
        """See `_SourceTraits`."""
        return self.node_id

    @property
    def narrowed_to(self) -> str | None:
        """See `_SourceTraits`."""
        return self.json_pointer


class LocalSource(_SourceTraits):
    """A directory below one of `LOCAL_SOURCE_ROOTS`."""

    title = "A local folder"
    is_watchable = True

    kind: Literal["local"] = Field(description="A directory of the service's machine.")
    path: str = Field(
        min_length=1,
        max_length=4096,
        description="Absolute path of the directory, on the machine where Foldex runs.",
        examples=["/srv/docs"],
    )

    @field_validator("path")
    @classmethod
    def _one_spelling(cls, path: str) -> str:
        if "\0" in path:
            raise ValueError("a path cannot contain a NUL character; remove it")
        return path.rstrip("/") or "/"

    @classmethod
    def at_place(cls, place: str) -> Self | None:
        """See `_SourceTraits`."""
        return cls(kind="local", path=os.path.normpath(place)) if Path(place).is_absolute() else None

    @property
    def place(self) -> str:
        """See `_SourceTraits`."""
        return self.path

    @property
    def directory(self) -> str:
        """See `_SourceTraits`."""
        return self.path


#: Parts of a path that a server might resolve, so that the path leads out of its beginning.
PLAIN = "cannot have `.`, `..` or nothing between two slashes"


def _is_plain(part: str) -> bool:
    return part != "" and {".", ".."}.isdisjoint(_folders(part))


def leads_out(key: str) -> bool:
    """Whether an object's key, relative to a folder, leads out of it once dots are resolved."""
    depth = 0
    for part in _folders(key):
        depth += {"": 0, ".": 0, "..": -1}.get(part, 1)
        if depth < 0:
            return True
    return False


def _folders(key: str) -> list[str]:
    """The parts of a key, as a server sees them that decodes it, or that takes backslashes for slashes."""
    return unquote(key).replace("\\", "/").split("/")


class S3Source(_SourceTraits):
    """The objects of a bucket below a prefix, treated as a folder: `docs` and `docs/` mean the same."""

    title = "S3"
    is_watchable = True
    needs_event_queue = True
    is_slow_to_list = True

    kind: Literal["s3"] = Field(description="A bucket.")
    bucket: str = Field(min_length=3, max_length=63, description="Name of the bucket.", examples=["docs"])
    prefix: str = Field(
        default="",
        max_length=1024,
        description="Folder in the bucket; empty: the whole bucket.",
        examples=["handbook/"],
    )

    @field_validator("prefix")
    @classmethod
    def _one_spelling(cls, prefix: str) -> str:
        return prefix if not prefix or prefix.endswith("/") else prefix + "/"

    @classmethod
    def at_place(cls, place: str) -> Self | None:
        """See `_SourceTraits`."""
        if not place.startswith(S3):
            return None
        bucket, _, prefix = place.removeprefix(S3).partition("/")
        source = cls(kind="s3", bucket=bucket, prefix=prefix)
        if not source.has_plain_prefix:
            raise ValueError(f"the prefix of a bucket {PLAIN}")
        return source

    @property
    def has_plain_prefix(self) -> bool:
        """Whether the prefix means the same to every server, also to one that resolves dots and joins slashes."""
        return all(_is_plain(folder) for folder in self.prefix.split("/")[:-1])

    @property
    def place(self) -> str:
        """See `_SourceTraits`."""
        return f"{S3}{self.bucket}/{self.prefix}"


def _with_kind(value: object) -> object:
    if isinstance(value, Mapping) and "kind" not in value:
        raise ValueError(f"`kind` is missing; it is one of {', '.join(kind.kind_name() for kind in SOURCES)}")
    return value


AnySource = Annotated[LocalSource | S3Source | NodesSource, Field(discriminator="kind"), BeforeValidator(_with_kind)]

#: The models of all kinds. The page offers them in this order.
SOURCES: tuple[type[LocalSource | S3Source | NodesSource], ...] = get_args(get_args(AnySource)[0])
_ANY: TypeAdapter[AnySource] = TypeAdapter(AnySource)


class SourceInfo(BaseModel):
    """A kind of source that a tool can have."""

    kind: str = Field(description="Value of `source.kind`.", examples=["local"])
    title: str = Field(description="Name of the kind, for people.", examples=["A local folder"])
    follows_edits: bool = Field(description="Whether `config.auto_reindex` has an effect.", examples=[False])
    is_watchable: bool = Field(description="Whether `config.watch` can notice changes.", examples=[True])
    needs_event_queue: bool = Field(description="Whether a watch needs a queue of events.", examples=[False])
    source_schema: dict[str, Any] = Field(
        description="JSON schema of `source`.",
        examples=[{"type": "object", "properties": {"kind": {"const": "local"}, "path": {"type": "string"}}}],
    )


def source_kinds() -> list[SourceInfo]:
    """All kinds of sources."""
    return [
        SourceInfo(
            kind=source.kind_name(),
            title=source.title,
            follows_edits=source.follows_edits,
            is_watchable=source.is_watchable,
            needs_event_queue=source.needs_event_queue,
            source_schema=source.model_json_schema(),
        )
        for source in SOURCES
    ]


def parsed_source(value: object) -> AnySource:
    """The source that JSON describes, or that `value` is."""
    return _ANY.validate_python(value)


def source_at(place: str) -> AnySource:
    """The source at a place. Raises `ValueError` for anything else."""
    for source in (kind.at_place(place) for kind in SOURCES):
        if source is not None:
            return source
    raise ValueError("a place must be an absolute path or s3://bucket/prefix")


#: The parts that become chunks: each definition, section or container; or as many neighbours as fit.
Granularity = Literal["definition", "packed"]


class ChunkSettings(BaseModel):
    """Sizes of chunks. They count the model's tokens with `unit="tokens"`, else characters.

    A text of fewer than `threshold` units stays one chunk if the model accepts it. With `granularity="definition"` each
    definition, section or container that is not small is a chunk; `"packed"` joins neighbours up to `size`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    unit: Literal["tokens", "characters"] = "tokens"
    size: int = Field(default=512, ge=16, le=1_000_000)
    overlap: int = Field(default=64, ge=0)
    threshold: int = Field(default=0, ge=0)
    granularity: Granularity = "definition"


#: The precision of vectors as a model gives them.
FLOAT32 = "float32"


class EmbedderProfile(BaseModel):
    """The embedding model with which an index is built. Vectors of different `precision` must not be mixed."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: str
    dimensions: int = Field(ge=1, le=10_752)
    precision: str = FLOAT32
    max_input_tokens: int = 8192

    def with_precision(self, precision: str) -> EmbedderProfile:
        """The same model with another precision."""
        return self.model_copy(update={"precision": precision})

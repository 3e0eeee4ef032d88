"""What a caller asks for who indexes a tool's folder again."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator
from pydantic.config import JsonDict

from schemas.tool import encodable

#: Maximum number of paths of a run; a file is compared with each of them.
MAX_PATHS = 100


_EXAMPLES: list[JsonDict] = [
    {},
    {"full": True},
    {"allow_removals": True},
    {"paths": ["docs/guide.md", "src"]},
    {"full": True, "renew_text": True},
]


def _relative(path: str) -> str:
    """The path without a slash at its end. Raises `ValueError` unless it is a path in a folder."""
    path = path.removesuffix("/")
    if "\0" in path or any(part in {"", ".", ".."} for part in path.split("/")):
        raise ValueError("must be a path in the tool's folder, without `.` and `..`")
    return encodable(path)


class Reindex(BaseModel):
    """Options for indexing again."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [*_EXAMPLES]})

    full: bool = Field(default=False, description="Read and chunk every file again; only new text is embedded.")
    renew_text: bool = Field(
        default=False,
        description="Embed code in the form of new indexes, with the name of its file in front; needs `full`. An index "
        "of the former form pays for all its code. It answers until another one, built beside it, is ready.",
    )
    allow_removals: bool = Field(
        default=False, description="Remove vanished files even if they are most of the folder."
    )
    paths: list[Annotated[str, AfterValidator(_relative)]] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_PATHS,
        description="Look only at these files and folders, named by their paths in the tool's folder, or by the ids of "
        "nodes. Those that are gone are removed. Null: the whole folder, which is also listed if the last run left "
        "something undone.",
    )

    @model_validator(mode="after")
    def renews_whole(self) -> Self:
        """Check that the form of text changes everywhere at once."""
        if self.renew_text and (not self.full or self.paths is not None):
            raise ValueError("renew_text needs a full run over the whole folder; send full: true, and no paths")
        return self


class ToolReindex(Reindex):
    """Options for indexing a tool again."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [*_EXAMPLES, {"full": True, "renew_text": True, "dry_run": True}]}
    )

    dry_run: bool = Field(
        default=False,
        description="Start nothing; answer 200 with an estimate of the cost. Not with `paths`.",
        examples=[False],
    )

    @model_validator(mode="after")
    def estimates_whole(self) -> Self:
        """Check that there is an estimate: it lists the whole folder."""
        if self.dry_run and self.paths is not None:
            raise ValueError("a dry run estimates the whole folder; send it without paths")
        return self

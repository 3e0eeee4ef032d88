"""Metadata that a tool declares, and filters by it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from schemas.content.acl import Acl
from schemas.content.metadata import (
    KEY_PATTERN,
    MAX_METADATA_BYTES,
    checked_key,
    checked_value,
    metadata_bytes,
)
from schemas.fields import Metadata

#: The types of values that searches can filter by.
MetadataKind = Literal["string", "int", "float", "bool", "time", "strings"]
#: Maximum keys that a tool declares, and that a filter has.
MAX_KEYS = 32
#: Maximum alternatives of a filter.
MAX_ALTERNATIVES = 1000
#: Maximum characters of a filter where it is a part of an address.
MAX_ADDRESS_CHARACTERS = 4096

COMPARISONS = ("gt", "gte", "lt", "lte")
#: What a condition may have, all of which must hold.
OPERATORS = frozenset({*COMPARISONS, "any", "all", "not", "exists"})

_OPERATORS_TEXT = "`gte`, `gt`, `lte`, `lt`, `any`, `all`, `not` and `exists`"


def _checked_declaration(declared: object) -> dict[str, object]:
    """The declaration with checked keys. Raises `ValueError`."""
    if not isinstance(declared, Mapping):
        raise ValueError("metadata declares types by key; send an object")  # noqa: TRY004 - pydantic takes no TypeError
    if len(declared) > MAX_KEYS:
        raise ValueError(f"a tool declares at most {MAX_KEYS} keys; leave some out")
    return {checked_key(key): kind for key, kind in declared.items()}


def _checked_filter(conditions: object) -> dict[str, Any]:
    """The conditions by key, of known operators and scalar values. Raises `ValueError`."""
    if not isinstance(conditions, Mapping):
        raise ValueError("a filter by metadata has conditions by key; send an object")  # noqa: TRY004 - as above
    if len(conditions) > MAX_KEYS:
        raise ValueError(f"a filter has at most {MAX_KEYS} keys of metadata; leave some out")
    return {checked_key(key): _checked_condition(condition) for key, condition in conditions.items()}


def _checked_condition(condition: object) -> dict[str, Any]:
    """A condition as operators. A plain value, or a list of alternatives, is `any`."""
    if not isinstance(condition, Mapping):
        return {"any": _alternatives(condition)}
    if not condition or not OPERATORS.issuperset(condition):
        raise ValueError(f"a condition is a value, a list of values, or an object of {_OPERATORS_TEXT}")
    return {operator: _operand(operator, value) for operator, value in condition.items()}


def _operand(operator: str, value: object) -> Any:
    if operator == "exists":
        if not isinstance(value, bool):
            raise ValueError("`exists` is true or false")
        return value
    return _scalar(value) if operator in COMPARISONS else _alternatives(value)


def _alternatives(value: object) -> list[Any]:
    values = value if isinstance(value, list) else [value]
    if not 0 < len(values) <= MAX_ALTERNATIVES:
        raise ValueError(f"a list of values has 1 to {MAX_ALTERNATIVES:,}")
    return [_scalar(each) for each in values]


def _scalar(value: object) -> Any:
    if isinstance(value, list):
        raise ValueError("a value in a filter is a string, a number or a boolean")  # noqa: TRY004 - as above
    if isinstance(value, str) and len(value) > MAX_METADATA_BYTES:
        raise ValueError(f"a string in a filter has at most {MAX_METADATA_BYTES:,} characters; shorten it")
    return checked_value(value)


_STRING = {"type": "string", "maxLength": MAX_METADATA_BYTES}
_SCALAR = {"anyOf": [_STRING, {"type": "number"}, {"type": "boolean"}]}
_VALUES = {"anyOf": [_SCALAR, {"type": "array", "items": _SCALAR, "minItems": 1, "maxItems": MAX_ALTERNATIVES}]}
_CONDITION = {
    "type": "object",
    "minProperties": 1,
    "additionalProperties": False,
    "properties": {
        **{name: {"anyOf": [_STRING, {"type": "number"}]} for name in COMPARISONS},
        **dict.fromkeys(("any", "all", "not"), _VALUES),
        "exists": {"type": "boolean"},
    },
}

#: Types by key.
Declaration = Annotated[
    dict[str, MetadataKind],
    BeforeValidator(_checked_declaration),
    Field(json_schema_extra={"maxProperties": MAX_KEYS, "propertyNames": {"pattern": KEY_PATTERN}}),
]

#: Where a tool takes metadata from, besides nodes and rules. Later ones replace earlier ones.
MetadataSource = Literal["properties", "front_matter", "s3", "sidecars"]
#: Maximum rules of a tool.
MAX_RULES = 32


class MetadataRule(BaseModel):
    """Metadata, or the access list, of all files at some paths. Metadata replaces what the files have themselves."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    path: str = Field(
        min_length=1,
        max_length=4096,
        description="A file_path, or a glob over it, as in filters.",
        examples=["hr/**"],
    )
    set: Metadata = Field(default_factory=dict, description="Values of these files.", examples=[{"team": "hr"}])
    acl: Acl | None = Field(
        default=None,
        description="Only who these principals admit reads these files in answers of this tool, in addition to the "
        "lists of nodes. Of several rules the last one counts. Calls for nodes, and other tools over the folder, do "
        "not obey it. Null: whoever may read them otherwise.",
        examples=[["group:hr"]],
    )


def _checked_rules(rules: list[MetadataRule]) -> list[MetadataRule]:
    """The rules. Raises `ValueError` if they set too much together: every read of an index parses them."""
    if any(rule.model_fields_set.isdisjoint({"set", "acl"}) for rule in rules):
        raise ValueError("a rule needs `set`, `acl` or both")
    for path in (rule.path for rule in rules if rule.acl is not None):
        # such a pattern selects no file, or only those of folders below, and would hide less than it seems
        if path != path.strip() or (path.endswith("/") and path.rstrip("/").endswith("**")):
            raise ValueError(
                f"the path {path!r} of a rule with `acl` has white space at an end, or ends with `**/`; remove that"
            )
    if sum(metadata_bytes(rule.set) for rule in rules) > MAX_METADATA_BYTES:
        raise ValueError(f"all rules together set at most {MAX_METADATA_BYTES >> 10} KiB as JSON; leave values out")
    if sum(len(entry.encode()) for rule in rules for entry in rule.acl or ()) > MAX_METADATA_BYTES:
        raise ValueError(
            f"the lists of all rules have at most {MAX_METADATA_BYTES >> 10} KiB; put principals in groups"
        )
    return rules


Rules = Annotated[list[MetadataRule], BeforeValidator(lambda value: value or []), AfterValidator(_checked_rules)]


class MetadataView(BaseModel):
    """A tool's view of its files' metadata: keys with their types, and the sources of values."""

    model_config = ConfigDict(frozen=True)

    declared: dict[str, MetadataKind] = Field(default_factory=dict)
    sources: tuple[MetadataSource, ...] = ()
    rules: tuple[MetadataRule, ...] = ()

    @property
    def lists(self) -> list[list[str]]:
        """The access lists of the rules."""
        return [rule.acl for rule in self.rules if rule.acl is not None]


#: How a tool sees it that declares nothing.
PLAIN = MetadataView()


class MetadataConfig(BaseModel):
    """The metadata settings in a tool's config. Null means empty."""

    metadata: Annotated[Declaration, BeforeValidator(lambda value: {} if value is None else value)] = Field(
        default_factory=dict,
        description="Keys of metadata that searches can filter by, with the type of their values. A value of another "
        "type counts as none.",
        examples=[{"team": "string", "year": "int", "due": "time", "tags": "strings"}],
    )
    metadata_from: Annotated[list[MetadataSource], BeforeValidator(lambda value: value or [])] = Field(
        default_factory=list,
        max_length=4,
        description="Where metadata comes from besides nodes, whose values replace these. `properties`: title, author, "
        "description, keywords (a list), created and modified (times), as documents state them. `front_matter`: that "
        "of Markdown, and `<meta>` of HTML. `s3`: user metadata of objects. `sidecars`: a JSON object in "
        "`NAME.meta.json` for the file `NAME`; it is not searched itself. Each replaces those before it.",
        examples=[["properties"]],
    )
    rules: Rules = Field(
        default_factory=list,
        max_length=MAX_RULES,
        description="Metadata and access lists by path. Metadata replaces that of files, and later rules earlier ones. "
        f"All together set at most {MAX_METADATA_BYTES >> 10} KiB.",
        examples=[[{"path": "hr/**", "set": {"team": "hr"}}]],
    )

    @property
    def metadata_view(self) -> MetadataView:
        """The tool's view of its files' metadata."""
        return MetadataView(declared=self.metadata, sources=tuple(self.metadata_from), rules=tuple(self.rules))


_Conditions = Annotated[
    dict[str, Any],
    BeforeValidator(_checked_filter),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": MAX_KEYS,
            "propertyNames": {"pattern": KEY_PATTERN},
            "additionalProperties": {"anyOf": [_VALUES, _CONDITION]},
        }
    ),
]
#: Conditions by key, as operators; None: every file. No conditions mean the same.
MetadataFilter = Annotated[_Conditions | None, AfterValidator(lambda conditions: conditions or None)]

FILTER_DESCRIPTION = (
    f"By metadata: for each key a value, a list of alternatives, or an object of {_OPERATORS_TEXT}. Null: every file."
)
FILTER_EXAMPLE = {"team": "red", "year": {"gte": 2020, "lt": 2024}, "tags": {"any": ["a", "b"]}}


class MetadataValue(BaseModel):
    """A value of a key."""

    value: str | int | float | bool = Field(
        description="The value, or one string of a list of strings.", examples=["red"]
    )
    files: int = Field(description="Number of files that have it.", examples=[12])


class MetadataKey(BaseModel):
    """A key that searches can filter by."""

    key: str = Field(description="The key.", examples=["team"])
    type: MetadataKind = Field(description="Its declared type.", examples=["string"])
    files: int = Field(description="Number of files with a value of that type.", examples=[40])
    mistyped_files: int = Field(description="Files whose value is of another type, which counts as none.", examples=[0])
    values: list[MetadataValue] = Field(description="Its values, the most frequent first.")
    has_more: bool = Field(description="Whether there are more values than these.", examples=[False])


class MetadataKeys(BaseModel):
    """The keys that a tool declares."""

    items: list[MetadataKey] = Field(description="The declared keys, in alphabetical order.")
    warning: str | None = Field(description="How many files have values of other types; null: none.", examples=[None])
    truncated: bool = Field(description="Whether only a part of the files was counted.", examples=[False])

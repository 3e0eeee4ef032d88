"""The environment variables. Entry points read them once and pass values on to everything else."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

from pydantic import Field, PrivateAttr, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from schemas.claims import ClaimNames
from schemas.content.source import ChunkSettings
from schemas.errors import Invalid
from worker.machine.error_texts import own_message
from worker.machine.memory.api_memory import DEFAULT_MB
from worker.state.address import Address, PooledAddress
from worker.stores import STORES

Group = TypeVar("Group")

#: Settings whose names other programs use too, so that a similar variable may belong to those.
SHARED_NAMES = {"DATABASE_URL", "CELERY_BROKER_URL", "FLOWER_PORT", "FLOWER_URL", "S3_ENDPOINT_URL"}
#: Length of a name from which a similar one is hardly chance: MAX_PAGE may be anything.
TELLING_LENGTH = 10
#: Settings that were removed, and why they are no longer needed.
REMOVED = {
    "RANKING": "the baseline is part of the search bench",
    "RANKING_WEIGHTS": "weights are constants, chosen with `make bench-search`",
    "LEG_WEIGHTS": "weights are constants, chosen with `make bench-search`",
    "WORDS_MEMORY_MB": "words have an eighth of API_MEMORY_MB",
    "EMBEDDING_CACHE_SPARE": "200,000 vectors of texts without an index are always kept",
    "EMBEDDING_CACHE_MAX": "2,000,000 vectors are cached, and others are read back from the store",
    "STRAY_SECONDS": "an incomplete upload is always kept for a day",
    "RERANK_SECONDS": "reranking gets four fifths of SEARCH_SECONDS",
    "RERANK_CANDIDATES": "a model always reads 50 candidates at most",
    "RERANK_MAX_TOKENS": "LiteLLM's table knows it, and 512 tokens suit every other model",
    "GREP_SECONDS": "SEARCH_SECONDS bounds greps too",
    "REFRESH_SECONDS": "SEARCH_SECONDS bounds `refresh: wait` too",
    "LLM_SECONDS": "a summary always has 120 s",
    "UNEMBEDDED_MAX_CHARS": "an answer always adds whole files of 50,000 characters at most",
    "MAX_UPLOAD_FILES": "an upload always has 1,000 files at most",
    "MAX_UPLOAD_BYTES": "an upload has at most twenty times MAX_FILE_BYTES",
    "UPLOAD_REFUSED_TYPES": "files without text are always refused",
    "MAX_PAGES": "a document always has 5,000 pages at most",
    "MAX_CHARACTERS": "a file always has 50,000,000 characters at most",
    "CHUNK_GRANULARITY": "each tool has `config.granularity`",
    "NAMED_FOLDERS_FILE": "the file is always in FOLDEX_HOME",
    "LOCAL_MODEL_DIR": "the extra `local-model` brings the files",
    "MIGRATE_AT_START": "`foldex serve --no-migrate` leaves migrations to you",
    "DISK_RESERVE_MB": "512 MiB are kept free, or a tenth of a smaller disk",
}
#: Prefix of variables that only Foldex reads.
OWN_PREFIX = "FOLDEX_"
#: Minimum similarity, by `difflib`, of a variable and the setting that it probably means.
ALIKE = 0.9
#: The same for variables that begin with `OWN_PREFIX`.
ALIKE_BEHIND_PREFIX = 0.85

#: The model of the embedded stack; it needs no account.
LOCAL_MODEL = "local/all-minilm-l6-v2"
#: The default of the embedded stack: that model, or another local one for folders in other languages than English.
BY_LANGUAGE = "local/by-language"
#: The model of summaries of the embedded stack; it needs no account either.
LOCAL_LLM = "local/extractive"

#: The defaults of chunks.
_CHUNKS = ChunkSettings()


class Settings(BaseSettings):
    """One field per environment variable; the variable has the same name in capitals."""

    model_config = SettingsConfigDict(env_ignore_empty=True, extra="ignore")
    _model_by_language: bool = PrivateAttr(default=False)

    def __init__(self, **values: Any) -> None:
        """Read the environment. Raises `Invalid`, which names every unusable variable and its purpose."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise Invalid("\n".join(self._explained(each) for each in error.errors())) from None

    foldex_home: Path = Field(Path(".foldex"), description="Directory of all data of the installation.")
    database_url: str = Field(
        "postgresql://localhost/foldex", pattern="^postgres(ql)?://", description="URL of the Postgres database."
    )
    database_session_url: str | None = Field(
        None,
        pattern="^postgres(ql)?://",
        description="URL of the database without a pooler; set it if `DATABASE_URL` is a pooler in transaction mode.",
    )
    celery_broker_url: str = Field(
        "redis://localhost:6379/0",
        pattern=r"^(rediss?|redis\+socket|sentinel|amqps?|pyamqp|memory)://",
        description="URL of Redis or RabbitMQ; carries only wake-ups.",
    )
    redis_url: str = Field(
        "redis://localhost:6379/1", pattern="^(rediss?|unix)://", description="URL of Redis for rate budgets."
    )

    api_host: str = Field("127.0.0.1", description="Address that the API listens on.")
    api_port: int = Field(8000, ge=1, le=65535, description="Port of the API.")
    api_processes: int = Field(
        1,
        ge=1,
        le=64,
        description="Processes of the API that share its port. With LanceDB each has its own caches, of some 400 MB.",
    )
    flower_port: int = Field(5555, ge=1, le=65535, description="Port of Flower, on 127.0.0.1.")
    flower_url: str | None = Field(
        None, pattern="^https?://", description="Address of Flower in a browser, to which the page links."
    )
    auth: Literal["on", "off"] = Field(
        "on", description="`on`: calls need a key. `off`: only calls from this machine, without a key."
    )
    oidc_issuer: str | None = Field(
        None,
        description="Issuer of signed tokens that callers may send instead of keys, as their claim `iss` names it; "
        "unset: there are none.",
    )
    oidc_audience: str | None = Field(
        None, description="What the claim `aud` of a token must name; needed with `OIDC_ISSUER`."
    )
    oidc_jwks: str | None = Field(
        None, description="URL or file of the issuer's public keys; needed with `OIDC_ISSUER`."
    )
    oidc_principals: str = Field(
        "user=email,group=groups,project=project_id",
        description="Claims that name principals, by kind, and the project; `project:=ID` is one project for all.",
    )
    mcp_allow_delete: bool = Field(
        default=False, description="Whether agents at `/mcp` have the tool `delete_folder`, which deletes indexes."
    )
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        "INFO", description="Least severe lines to log, in upper or lower case. DEBUG logs every file."
    )
    debuggers: Literal["on", "off"] = Field(
        "off", description="`on`: debuggers and profilers of the same user can attach, and then read every key."
    )

    local_source_roots: Annotated[list[Path], NoDecode] = Field(
        default_factory=list,
        description="Directories below which folders can be indexed: whole paths, separated by `:`.",
    )
    s3_endpoint_url: str | None = Field(None, description="Address of the S3 service; unset: AWS.")
    s3_bucket: str | None = Field(None, description="Bucket for node contents; unset: a directory in FOLDEX_HOME.")
    s3_events_queue_url: str | None = Field(
        None,
        pattern="^https?://[^/]+/.+",
        description="SQS queue that gets the events of buckets, for tools that watch S3; unset: none can.",
    )

    default_embedding_model: str = Field(
        "openrouter/qwen/qwen3-embedding-8b",
        description="Embedding model of tools that name none. `local/by-language` is a local one for their language.",
    )
    allowed_models: Annotated[list[str] | None, NoDecode] = Field(
        None,
        description="Patterns of models that tools may name, separated by spaces or commas; "
        "unset: the default model and local/*.",
    )
    embedding_dimensions: int | None = Field(
        None, ge=1, description="Dimensions of the vectors; unset: the model's default."
    )
    embedding_batch_size: int | None = Field(
        None, ge=1, description="Maximum texts per request; unset: the model's limit."
    )
    embedding_api_base: str | None = Field(None, description="Address of an OpenAI-compatible provider.")
    embedding_api_key: str | None = Field(
        None, description="Key for that provider; unset: the provider's own variable."
    )
    embedding_concurrency: int = Field(4, ge=1, le=64, description="Concurrent requests of one worker process.")
    embedding_rpm: int | None = Field(None, ge=1, description="Requests per minute of all workers; unset: unlimited.")
    embedding_tpm: int | None = Field(None, ge=1, description="Tokens per minute of all workers; unset: unlimited.")

    chunk_size_tokens: int = Field(_CHUNKS.size, ge=16, description="Maximum tokens per chunk.")
    chunk_overlap_tokens: int = Field(
        _CHUNKS.overlap, ge=0, description="Maximum tokens that neighbouring chunks share."
    )
    chunk_size_chars: int | None = Field(
        None,
        ge=16,
        description="Maximum characters per chunk; if set, replaces CHUNK_SIZE_TOKENS for tools without `chunk_size`.",
    )
    chunk_overlap_chars: int | None = Field(
        None,
        ge=0,
        description="Maximum characters that neighbouring chunks share, if CHUNK_SIZE_CHARS is set; unset: 0.",
    )
    chunk_threshold_chars: int | None = Field(
        None, ge=0, description="Shorter texts stay one chunk. Counts tokens, or characters if CHUNK_SIZE_CHARS is set."
    )
    max_tools: int | None = Field(None, ge=1, description="Maximum tools of a project; unset: no limit.")
    max_file_bytes: int = Field(50_000_000, ge=1, description="Larger files are skipped as too_large.")
    parse_seconds: float = Field(60.0, ge=1, description="Seconds of processor time to read and chunk one file.")
    parse_memory_mb: int = Field(1024, ge=256, description="MiB of memory to read and chunk one file.")

    ocr_languages: str = Field(
        "eng",
        pattern=r"^\w+(\+\w+)*$",
        description="Languages of text in images, by Tesseract's names, such as deu+eng.",
    )
    ocr_pictures: int = Field(
        0, ge=0, le=1000, description="Maximum pictures of an office file, book or mail whose text is read; 0: none."
    )

    max_body_bytes: int = Field(
        10_000_000, ge=1, description="Maximum bytes of a request body; uploads have limits of their own."
    )
    watch_rest_seconds: float = Field(
        60.0,
        ge=0,
        description=(
            "Minimum seconds between two runs that a watch starts over a whole folder. After a run over changed paths "
            "it waits a twentieth of that."
        ),
    )

    search_seconds: float = Field(
        10.0,
        gt=0,
        le=300,
        description="Seconds after which a grep, a search across tools, and `refresh: wait` answer with what they "
        "have. Reranking gets four fifths of it.",
    )

    vector_store: str | None = Field(
        None, description="Vector store of new indexes; unset: Turbopuffer if its key is set, else LanceDB."
    )
    keyword_index: Literal["postgres", "store"] | None = Field(
        None, description="Where new indexes keep keywords; unset: as the folder's first index, else in the store."
    )
    words_first: Literal["postgres", "store"] = Field(
        "postgres",
        description="Where the words of a chunk wait for its vector if the store bills writes, as Turbopuffer does.",
    )
    api_memory_mb: int = Field(
        DEFAULT_MB,
        ge=256,
        description="MiB of private memory below which each API process stays; its caches and buffers are shares.",
    )
    turbopuffer_api_key: str | None = Field(None, description="API key of Turbopuffer.")
    turbopuffer_region: str = Field("gcp-us-central1", description="Region of Turbopuffer.")
    turbopuffer_base_url: str | None = Field(None, description="Address of Turbopuffer; if set, replaces the region.")

    vector_store_text: Literal["blind", "plain"] | None = Field(
        None,
        description="What new indexes give a store that others operate: `blind`, keyed hashes of words, names and "
        "paths, or `plain`, readable ones; unset: as the folder's newest index, else `blind`.",
    )
    blind_token_key: str | None = Field(
        None,
        min_length=16,
        description="Key of these hashes, at least 16 characters; unset: a key made once and kept in Postgres.",
    )

    namespace_prefix: str = Field(
        "",
        pattern=r"^([A-Za-z0-9_-][A-Za-z0-9_.-]{0,31})?$",
        description="Prefix of new namespaces, for installations that share an account of the vector store.",
    )

    rerank_model: str | None = Field(
        None,
        description="Rerank model, by LiteLLM's name, or `local/DIRECTORY` for a cross-encoder's files; unset: "
        "`rerank: model` is unavailable.",
    )
    rerank_api_base: str | None = Field(None, description="Address of the rerank model; unset: the provider's own.")
    rerank_api_key: str | None = Field(
        None, description="Key for the rerank model; unset: the provider's own variable."
    )
    default_llm_model: str | None = Field(
        None,
        description="Language model of `rerank: llm` and of summary trees, by LiteLLM's name; unset: neither is "
        "available. `local/extractive` works for summaries only.",
    )
    llm_api_base: str | None = Field(None, description="Address of the language model; unset: the provider's own.")
    llm_api_key: str | None = Field(None, description="Key for the language model; unset: the provider's own variable.")

    llm_rpm: int | None = Field(
        None, ge=1, description="Requests per minute to the language model for summaries; unset: unlimited."
    )
    llm_tpm: int | None = Field(
        None, ge=1, description="Tokens per minute to the language model for summaries; unset: unlimited."
    )

    worker_concurrency: int = Field(2, ge=1, description="Processes of the bulk worker.")

    @property
    def database(self) -> Address:
        """The database, for uses without a session."""
        return PooledAddress(self.database_url) if self.database_session_url else self.database_url

    @property
    def session_url(self) -> str:
        """The database, for sessions."""
        return self.database_session_url or self.database_url

    def values(self, group: type[Group]) -> Group:
        """Make a dataclass whose fields are named like settings, so that its reader needs no `Settings`."""
        return group(**{field.name: getattr(self, field.name) for field in fields(group)})  # type: ignore[arg-type] # TypeVars take no protocol of dataclasses

    @classmethod
    def misspelt(cls, environ: Mapping[str, str]) -> list[str]:
        """Return a sentence for each variable that was a setting, or is probably meant as one."""
        given = sorted(variable for variable, value in environ.items() if value)
        removed = [name for name in given if name in REMOVED]
        in_capitals = {variable.upper() for variable in given}
        meant = {variable: _meant_setting(variable.upper()) for variable in given}
        return [
            *(f"The setting {name} has no effect any more, because {REMOVED[name]}; remove it." for name in removed),
            *(
                f"The variable {variable} is not a setting and has no effect; did you mean {name}?"
                for variable, name in meant.items()
                # with the right one set, this one belongs to another program
                if name is not None and name not in in_capitals
            ),
        ]

    @classmethod
    def _explained(cls, error: ErrorDetails) -> str:
        message = own_message(error["msg"])
        if not error["loc"]:
            return message
        name = str(error["loc"][0])
        # a URL may contain a password, and this message may be logged
        value = "" if name.endswith(("_url", "_key")) else f" is {error['input']!r}, which"
        return f"{name.upper()}{value} is invalid: {message}. {cls.model_fields[name].description}"

    @property
    def model_by_language(self) -> bool:
        """Whether the languages of a folder select its local model if no setting names one."""
        return self._model_by_language

    @model_validator(mode="after")
    def _with_plain_default(self) -> Self:
        if self.default_embedding_model == BY_LANGUAGE:
            self.default_embedding_model, self._model_by_language = LOCAL_MODEL, True
        return self

    @model_validator(mode="after")
    def _whole_issuer(self) -> Self:
        given = {"OIDC_ISSUER": self.oidc_issuer, "OIDC_AUDIENCE": self.oidc_audience, "OIDC_JWKS": self.oidc_jwks}
        missing = [name for name, value in given.items() if value is None]
        if missing and len(missing) < len(given):
            needed = " and ".join(missing)
            raise ValueError(
                f"Tokens need OIDC_ISSUER, OIDC_AUDIENCE and OIDC_JWKS; set {needed} too, or none of them."
            )
        return self

    @field_validator("oidc_principals")
    @classmethod
    def _named_claims(cls, text: str) -> str:
        ClaimNames.parsed(text)
        return text

    @field_validator("log_level", mode="before")
    @classmethod
    def _in_capitals(cls, value: object) -> object:
        return value.upper() if isinstance(value, str) else value

    @field_validator("vector_store")
    @classmethod
    def _known_store(cls, name: str | None) -> str | None:
        if name is not None and name not in STORES:
            raise ValueError(f"Input should be {' or '.join(map(repr, STORES))}")
        return name

    @field_validator("allowed_models", mode="before")
    @classmethod
    def _split_names(cls, value: object) -> object:
        return _names(value) if isinstance(value, str) else value

    @field_validator("local_source_roots", mode="before")
    @classmethod
    def _split_paths(cls, value: object) -> object:
        return [part for part in value.split(os.pathsep) if part] if isinstance(value, str) else value

    @field_validator("local_source_roots")
    @classmethod
    def _whole_paths(cls, roots: list[Path]) -> list[Path]:
        for root in roots:
            if not root.is_absolute():
                raise ValueError(
                    f"'{root}' is relative, but processes run in different directories; write the whole path"
                )
        return roots


def _meant_setting(variable: str) -> str | None:
    """Return the setting with a name close to a variable's; None for settings, and for variables of other programs."""
    names = {field.upper() for field in Settings.model_fields}
    bare = variable.removeprefix(OWN_PREFIX)
    if variable in names or variable[-1:].isdigit():
        return None
    if bare == variable:
        return _closest(variable, {name for name in names - SHARED_NAMES if len(name) >= TELLING_LENGTH}, ALIKE)
    return _closest(bare, names, ALIKE_BEHIND_PREFIX) or _closest(variable, names, ALIKE)


def _closest(written: str, names: Collection[str], alike: float) -> str | None:
    """Return the most similar name that is at most one letter longer or shorter."""
    comparable = sorted(name for name in names if abs(len(name) - len(written)) <= 1)
    return next(iter(get_close_matches(written, comparable, n=1, cutoff=alike)), None)


def _names(value: str) -> list[str]:
    """Return names that are separated by spaces or commas."""
    return value.replace(",", " ").split()

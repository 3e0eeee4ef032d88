"""The environment variables. Entry points read them once and pass values on to everything else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails, from_json
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from schemas.errors import Invalid

#: The model of the embedded stack; it needs no account.
LOCAL_MODEL = "local/all-minilm-l6-v2"
#: Extensions that uploads may not have by default: these files hold no text, or only text that needs extraction first.
REFUSED_TYPES = (
    "exe dll so dylib msi scr bin class pyc pyo pyd wasm elc beam node o a iso img dmg deb rpm apk ipa "
    "mp3 wav flac ogg opus m4a aac wma aiff mid mp4 m4v mov avi mkv webm wmv flv mpg mpeg 3gp "
    "ttf otf woff woff2 eot ttc"
)


#: Weights of a search's legs, for queries that name something (`name_`) and for sentences (`language_`).
LEG_WEIGHTS = {
    "name_vector": 0.7,
    "name_text": 0.5,
    "name_code": 1.0,
    "language_vector": 1.0,
    "language_text": 0.5,
    "language_code": 1.0,
}
#: Weights of what is known about a chunk and its file; a negative weight ranks the chunk lower.
RANKING_WEIGHTS = {
    "definition": 0.5,
    "symbol": 0.3,
    "path": 0.15,
    "scope": 0.1,
    "phrase": 0.3,
    "verbatim": 0.3,
    "near_path": 0.1,
    "near_symbol": 0.1,
    "test": -0.15,
    "vendored": -0.1,
    "generated": -0.1,
    "long": -0.05,
}
SIMPLE_WEIGHTS = dict.fromkeys(RANKING_WEIGHTS, 0.0) | {"symbol": 0.2, "path": 0.1, "scope": 0.1}


class Settings(BaseSettings):
    """One field per environment variable; the variable has the same name in capitals."""

    model_config = SettingsConfigDict(env_ignore_empty=True, extra="ignore")

    def __init__(self, **values: Any) -> None:
        """Read the environment. Raises `Invalid`, which names every unusable variable and its purpose."""
        try:
            super().__init__(**values)
        except ValidationError as error:
            raise Invalid("\n".join(map(_said, error.errors()))) from None

    foldex_home: Path = Field(Path(".foldex"), description="Directory of everything the installation keeps.")
    database_url: str = Field(
        "postgresql://localhost/foldex", pattern="^postgres(ql)?://", description="Postgres, the truth."
    )
    celery_broker_url: str = Field("redis://localhost:6379/0", description="Redis or RabbitMQ, for wake-ups only.")
    redis_url: str = Field(
        "redis://localhost:6379/1", pattern="^(rediss?|unix)://", description="Redis for rate budgets."
    )

    api_host: str = Field("127.0.0.1", description="Address the API listens on.")
    api_port: int = Field(8000, ge=1, le=65535, description="Port of the API.")
    flower_port: int = Field(5555, ge=1, le=65535, description="Port of Flower, on 127.0.0.1.")
    auth: Literal["on", "off"] = Field("on", description="`off` answers callers on this machine without a key.")
    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field("INFO", description="DEBUG logs every file.")
    debuggers: Literal["on", "off"] = Field(
        "off", description="`on` lets debuggers and profilers of the same user attach, which then can read every key."
    )

    local_source_roots: Annotated[list[Path], NoDecode] = Field(
        default_factory=list, description="Directories, separated by `:`, below which folders may be indexed."
    )
    s3_endpoint_url: str | None = Field(None, description="Any S3 service; unset: AWS.")
    s3_bucket: str | None = Field(None, description="Bucket of node contents; unset: a directory in FOLDEX_HOME.")

    default_embedding_model: str = Field(
        "openrouter/qwen/qwen3-embedding-8b", description="Model of tools that name none."
    )
    allowed_models: Annotated[list[str] | None, NoDecode] = Field(
        None,
        description="Models that tools may name, as patterns separated by blanks; "
        "unset: the default model and local/*.",
    )
    embedding_dimensions: int | None = Field(None, ge=1, description="Unset: the model's own.")
    embedding_batch_size: int | None = Field(None, ge=1, description="Texts a request; unset: the model's limit.")
    embedding_api_base: str | None = Field(None, description="Address of an OpenAI-compatible provider.")
    embedding_api_key: str | None = Field(None, description="Its key; unset: the provider's own variable.")
    embedding_concurrency: int = Field(4, ge=1, le=64, description="Requests in flight of one worker process.")
    embedding_rpm: int | None = Field(None, ge=1, description="Requests a minute of all workers; unset: unlimited.")
    embedding_tpm: int | None = Field(None, ge=1, description="Tokens a minute of all workers; unset: unlimited.")
    embedding_cache_spare: int = Field(
        200_000, ge=0, description="Cached vectors kept of texts that no index holds any more."
    )
    embedding_cache_max: int = Field(2_000_000, ge=0, description="Cached vectors in all.")
    local_model_dir: Path | None = Field(None, description="Another directory with the local model's files.")

    chunk_size_tokens: int = Field(512, ge=16, description="Tokens of a chunk, at most.")
    chunk_overlap_tokens: int = Field(64, ge=0, description="Tokens that neighbours share, at most.")
    chunk_size_chars: int | None = Field(None, ge=16, description="Characters of a chunk; honoured instead when set.")
    chunk_overlap_chars: int | None = Field(None, ge=0, description="Characters that neighbours share.")
    chunk_threshold_chars: int | None = Field(None, ge=0, description="A shorter text stays one chunk.")
    max_file_bytes: int = Field(50_000_000, ge=1, description="Larger files are skipped as too_large.")
    max_pages: int = Field(5_000, ge=1, description="Documents of more pages, slides or sheets are too_large.")
    max_characters: int = Field(50_000_000, ge=1, description="Files whose text is longer are too_large.")
    parse_seconds: float = Field(60.0, ge=1, description="Processor time to read one file, and to cut its text.")
    parse_memory_mb: int = Field(
        1024, ge=256, description="Memory to read one of them, and to cut a file of any kind, in MiB."
    )

    ocr_languages: str = Field(
        "eng", pattern=r"^\w+(\+\w+)*$", description="Languages of text in pictures, by Tesseract's names: deu+eng."
    )

    max_body_bytes: int = Field(
        10_000_000, ge=1, description="Bytes of a request's body, at most; uploads have bounds of their own."
    )
    max_upload_files: int = Field(1000, ge=1, description="Files of one upload; further ones are refused.")
    max_upload_bytes: int = Field(1_000_000_000, ge=1, description="Bytes of one upload; what is beyond is refused.")
    upload_refused_types: str = Field(
        REFUSED_TYPES, description="Extensions that uploads must not have, separated by blanks."
    )
    stray_seconds: int = Field(
        86_400, ge=1, description="An upload that is not complete by then is given up, and what it stored deleted."
    )
    disk_reserve_mb: int = Field(
        512, ge=0, description="MiB on the disk of FOLDEX_HOME below which it warns, and refuses below a quarter."
    )
    watch_rest_seconds: float = Field(60.0, ge=0, description="Seconds between two runs that a watch starts.")

    ranking: Literal["measured", "simple"] = Field(
        "measured", description="simple: 50 nearest chunks by cosine, symbol, path and scope, as a baseline."
    )
    ranking_weights: Annotated[dict[str, float], NoDecode] = Field(
        default_factory=dict, description="JSON: weights of what is known of a chunk, by name; others stay."
    )
    leg_weights: Annotated[dict[str, float], NoDecode] = Field(
        default_factory=dict, description="JSON: weights of the legs of a search, by name; others stay."
    )
    search_seconds: float = Field(
        10.0, gt=0, le=300, description="Seconds after which a search across tools answers without the slow ones."
    )
    refresh_seconds: float = Field(10.0, ge=0, description="Seconds that a query waits with `refresh: wait`, at most.")
    unembedded_max_chars: int = Field(50_000, ge=0, description="Characters of whole files that one answer adds.")

    grep_seconds: float = Field(10.0, gt=0, le=300, description="After so long a grep answers with what it has found.")

    vector_store: Literal["turbopuffer", "lancedb"] | None = Field(
        None, description="Unset: Turbopuffer when its key is set, else LanceDB."
    )
    keyword_index: Literal["postgres", "store"] | None = Field(
        None, description="Unset: postgres with Turbopuffer, store with LanceDB."
    )
    turbopuffer_api_key: str | None = Field(None, description="Key of Turbopuffer.")
    turbopuffer_region: str = Field("gcp-us-central1", description="Region of Turbopuffer.")
    turbopuffer_base_url: str | None = Field(None, description="Another address; the region is not used then.")

    namespace_prefix: str = Field(
        "",
        pattern=r"^([A-Za-z0-9_-][A-Za-z0-9_.-]{0,31})?$",
        description="In front of new namespaces, where installations share an account of the vector store.",
    )

    rerank_model: str | None = Field(None, description="Rerank model of LiteLLM; unset: no rerank: model.")
    rerank_api_base: str | None = Field(None, description="Its address; unset: the provider's own.")
    rerank_api_key: str | None = Field(None, description="Its key; unset: the provider's own variable.")
    rerank_seconds: float = Field(8.0, gt=0, le=60, description="Time to rerank one query, by either kind of model.")
    rerank_candidates: int = Field(50, ge=1, le=200, description="Candidates handed to the model, at most.")
    rerank_max_tokens: int | None = Field(
        None, ge=64, description="Tokens it takes of query and text together; unset: by LiteLLM's table, else 512."
    )
    default_llm_model: str | None = Field(None, description="Language model of LiteLLM; unset: no rerank: llm.")
    llm_api_base: str | None = Field(None, description="Its address; unset: the provider's own.")
    llm_api_key: str | None = Field(None, description="Its key; unset: the provider's own variable.")

    worker_concurrency: int = Field(2, ge=1, description="Processes of the bulk worker.")

    @model_validator(mode="after")
    def _weighed(self) -> Self:
        """Fill in the default weights and reject unknown names."""
        measured = SIMPLE_WEIGHTS if self.ranking == "simple" else RANKING_WEIGHTS
        self.ranking_weights = _completed("RANKING_WEIGHTS", self.ranking_weights, measured)
        self.leg_weights = _completed("LEG_WEIGHTS", self.leg_weights, LEG_WEIGHTS)
        return self

    @field_validator("ranking_weights", "leg_weights", mode="before")
    @classmethod
    def _parsed(cls, value: object) -> object:
        return from_json(value) if isinstance(value, str) else value

    @field_validator("allowed_models", mode="before")
    @classmethod
    def _split_at_blanks(cls, value: object) -> object:
        return value.split() if isinstance(value, str) else value

    @field_validator("local_source_roots", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return [part for part in value.split(os.pathsep) if part] if isinstance(value, str) else value


def _said(error: ErrorDetails) -> str:
    message = error["msg"].removeprefix("Value error, ")
    if not error["loc"]:
        return message
    name = str(error["loc"][0])
    # a URL may hold a password, and this message may be logged
    value = "" if name.endswith(("_url", "_key")) else f" is {error['input']!r}, which"
    return f"{name.upper()}{value} cannot be used: {message}. {Settings.model_fields[name].description}"


def _completed(name: str, given: dict[str, float], measured: dict[str, float]) -> dict[str, float]:
    unknown = sorted(given.keys() - measured.keys())
    if unknown:
        raise ValueError(f"{name} has no {', '.join(unknown)}; it has {', '.join(measured)}")
    return {**measured, **given}

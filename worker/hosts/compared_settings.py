"""The settings that a process registers for comparison: which are set, with short hashes of values, never a secret."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from uuid import UUID

from schemas.release import RELEASE
from worker.machine.host import plain, this_host
from worker.settings import Settings
from worker.state.hosts import Registration, Role
from worker.state.schema_version import needed
from worker.stores import StoreOptions, default_store

#: Settings that may differ between machines. All others must be equal.
OF_ONE_MACHINE = frozenset(
    {
        "foldex_home",
        "database_url",
        "database_session_url",
        "api_host",
        "api_port",
        "api_processes",
        "flower_port",
        "flower_url",
        "log_level",
        "debuggers",
        "embedding_concurrency",
        "worker_concurrency",
        "api_memory_mb",
        "parse_memory_mb",
    }
)
#: Settings that affect only the API, such as defaults of a new tool's config. Its processes must agree.
OF_API = frozenset(
    {
        "mcp_allow_delete",
        "embedding_dimensions",
        "chunk_size_tokens",
        "chunk_overlap_tokens",
        "chunk_size_chars",
        "chunk_overlap_chars",
        "chunk_threshold_chars",
        "max_tools",
        "max_file_bytes",
        "max_body_bytes",
        "search_seconds",
        "vector_store",
        "keyword_index",
        "vector_store_text",
        "namespace_prefix",
        "rerank_model",
        "rerank_api_base",
        "rerank_api_key",
    }
)
#: The only settings that must be equal for processes that do little.
OF_FEW = {
    "beat": frozenset({"celery_broker_url"}),
    "watch": frozenset(
        {"celery_broker_url", "local_source_roots", "s3_events_queue_url", "watch_rest_seconds", "auth"}
    ),
}
#: Represents the keys that S3's client finds, wherever it finds them.
S3_CREDENTIALS = "S3 credentials"
#: Bytes of a hash: enough to distinguish a few values, too few to reveal one.
HASH_BYTES = 4
#: Maximum characters of a displayed value, and maximum values of a list.
MAX_SHOWN, MAX_LISTED = 200, 20


def registration(
    settings: Settings, salt: str, *, id_: UUID, role: Role, node: str, queues: Sequence[str]
) -> Registration:
    """Return the row of this process in the registry. `salt` is mixed into its hashes."""
    hashes = hashes_of(settings, salt, role)
    return Registration(
        id=id_,
        host=this_host(),
        role=role,
        node=plain(node),
        queues=queues,
        release=RELEASE,
        needed_schema=needed()[-1],
        settings=hashes,
        settings_digest=_hash(json.dumps(hashes, sort_keys=True), "", salt),
        shown=_shown(settings),
    )


def hashes_of(settings: Settings, salt: str, role: Role) -> dict[str, str | None]:
    """Return the hash of each setting that must be equal, by its variable; None for one that is not set."""
    values: dict[str, object] = {
        name.upper(): value for name, value in settings.model_dump(mode="json").items() if _must_be_equal(name, role)
    }
    if role not in OF_FEW:
        values |= {name: os.environ.get(name) for name in provider_keys(_models(settings))}
        values[S3_CREDENTIALS] = _s3_credentials() if uses_s3(settings) else None
    return {name: None if value in (None, "", [], {}) else _hash(name, value, salt) for name, value in values.items()}


def _must_be_equal(name: str, role: Role) -> bool:
    few = OF_FEW.get(role)
    if few is not None:
        return name in few
    return name not in OF_ONE_MACHINE and (role == "api" or name not in OF_API)


def _s3_credentials() -> str | None:
    # the scheduler takes little memory as long as it does not import this
    from worker.objects.object_store import credentials

    return credentials()


def provider_keys(models: Sequence[str]) -> list[str]:
    """Return the variables from which model clients take a key if no setting has one."""
    prefixes = {model.partition("/")[0] for model in models if "/" in model} - {"local"}
    return sorted(f"{prefix.upper().replace('-', '_')}_API_KEY" for prefix in prefixes)


def uses_s3(settings: Settings) -> bool:
    """Return whether a setting shows that S3 is used. Otherwise its client requests credentials from the network."""
    named = settings.s3_bucket or settings.s3_endpoint_url or settings.s3_events_queue_url
    return bool(named) or any(name in os.environ for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"))


def _models(settings: Settings) -> list[str]:
    named = (settings.default_embedding_model, settings.default_llm_model, settings.rerank_model)
    allowed = [model for model in settings.allowed_models or () if "*" not in model]
    return [model for model in (*named, *allowed) if model]


def _shown(settings: Settings) -> Mapping[str, Sequence[str]]:
    store = settings.vector_store or default_store(settings.values(StoreOptions))
    values = {
        "roots": list(map(str, settings.local_source_roots)),
        "models": [model for model in _models(settings) if "://" not in model],
        "stores": [store, "S3" if settings.s3_bucket else "directory"],
    }
    return {name: [value[:MAX_SHOWN] for value in listed[:MAX_LISTED]] for name, listed in values.items()}


def _hash(name: str, value: object, salt: str) -> str:
    text = json.dumps([name, value], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), key=salt.encode()[:64], digest_size=HASH_BYTES).hexdigest()

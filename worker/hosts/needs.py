"""The settings that work needs, so that a worker that lacks one can leave it to another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.errors import FoldexError
from worker.hosts.compared_settings import S3_CREDENTIALS, provider_keys
from worker.state.index.tools import Index

#: By the kind of the source.
_OF_SOURCE = {
    "nodes": ("S3_BUCKET", S3_CREDENTIALS, "S3_ENDPOINT_URL"),
    "s3": (S3_CREDENTIALS, "S3_ENDPOINT_URL"),
    "local": ("LOCAL_SOURCE_ROOTS",),
}
#: By the name of the store.
_OF_STORE = {"turbopuffer": ("TURBOPUFFER_API_KEY", "TURBOPUFFER_BASE_URL", "TURBOPUFFER_REGION")}
_OF_MODEL = ("EMBEDDING_API_KEY", "EMBEDDING_API_BASE", "DEFAULT_EMBEDDING_MODEL", "ALLOWED_MODELS")
_OF_LLM = ("LLM_API_KEY", "LLM_API_BASE", "DEFAULT_LLM_MODEL")
#: Settings without which work certainly fails where other workers have them. The others have a default that may fit.
_INDISPENSABLE = frozenset(
    {
        "S3_BUCKET",
        S3_CREDENTIALS,
        "S3_ENDPOINT_URL",
        "TURBOPUFFER_API_KEY",
        "TURBOPUFFER_BASE_URL",
        "EMBEDDING_API_KEY",
        "EMBEDDING_API_BASE",
        "LLM_API_KEY",
        "LLM_API_BASE",
        "DEFAULT_LLM_MODEL",
    }
)


@dataclass(frozen=True, slots=True)
class NeededSettings:
    """The settings that work depends on, by the part that needs them, as `FoldexError.settings_of` names it."""

    by_user: Mapping[str, Sequence[str]]

    @property
    def indispensable(self) -> Sequence[str]:
        """The settings that a worker must have if others have them."""
        return [name for names in self.by_user.values() for name in names if name in _INDISPENSABLE]

    def of(self, error: FoldexError) -> Sequence[str]:
        """Return the settings that may have caused an error."""
        return self.by_user.get(error.settings_of or "", ())


def needs_of(index: Index, llm: str | None = None) -> NeededSettings:
    """Return the needs of a task over an index, or of the build of a tree with the language model `llm`."""
    key = ("BLIND_TOKEN_KEY",) if index.text_key is not None else ()
    needs = {
        "source": _OF_SOURCE.get(index.source.kind, ()),
        "store": (*_OF_STORE.get(index.vector_store, ()), *key),
        "embedding": _of_model(index.settings.embedder.model, _OF_MODEL),
        "llm": () if llm is None else _of_model(llm, _OF_LLM),
    }
    return NeededSettings(needs)


def _of_model(model: str, names: Sequence[str]) -> Sequence[str]:
    return () if model.startswith("local/") else (*names, *provider_keys([model]))

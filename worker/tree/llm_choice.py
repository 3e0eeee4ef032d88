"""Selects the language model that summarises."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from schemas.errors import LlmNotConfigured
from schemas.summary_tree import RaptorConfig
from worker.embed.models import check_listed, is_local, same_provider
from worker.llm.chat import Chat
from worker.llm.litellm import Provider
from worker.tree import extractive
from worker.tree.model_summaries import PROMPT, ProviderSummariser
from worker.tree.summaries import Extractive, Summariser

#: Maximum seconds for one summary: small models on a CPU are slow.
SUMMARY_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class LlmOptions:
    """The settings of language models, by their names in `worker.settings`."""

    default_llm_model: str | None
    llm_api_base: str | None
    llm_api_key: str | None = field(repr=False)
    allowed_models: Sequence[str] | None


def model_of(config: RaptorConfig, options: LlmOptions) -> str:
    """Return the name of the model that summarises. Raises `LlmNotConfigured` and `ModelNotAllowed`."""
    name = config.llm_model or options.default_llm_model
    if name is None or (is_local(name) and name != extractive.MODEL):
        raise LlmNotConfigured(
            "Summary trees need a language model; set DEFAULT_LLM_MODEL with LLM_API_BASE and LLM_API_KEY, or set "
            f"config.raptor.llm_model to {extractive.MODEL}, which needs no key."
        )
    allowed = [extractive.MODEL, *filter(None, [options.default_llm_model]), *(options.allowed_models or ())]
    check_listed("language", name, allowed)
    return name


def provider_of(model: str, options: LlmOptions) -> Provider:
    """Return the access to a model. Address and key go only to the provider of the default model."""
    known = options.default_llm_model is None or same_provider(model, options.default_llm_model)
    return Provider(
        model,
        options.llm_api_base if known else None,
        options.llm_api_key if known else None,
        SUMMARY_SECONDS,
        "DEFAULT_LLM_MODEL, LLM_API_BASE and LLM_API_KEY",
    )


def summariser_of(config: RaptorConfig, chat: Chat | None, room: int | None) -> Summariser:
    """Return the model that summarises, with its prompt. Without `chat`, it is `local/extractive`."""
    if chat is None:
        return Extractive()
    return ProviderSummariser(chat, config.summary_prompt or PROMPT, config.summary_num_workers, room)

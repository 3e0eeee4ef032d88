"""Removes a language model's reasoning from its answer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

_NAMES = "think|thinking|thought|thoughts|reason|reasoning|reflection|analysis|scratchpad|seed:think|antml:thinking"
#: The marks around reasoning: DeepSeek's, Qwen's and others', Mistral's, Kimi's, Cohere's, and those of long chains.
_MARK = re.compile(
    rf"(?P<close></\s?(?:{_NAMES})\s?>|\[/think\]|◁/think▷|<\|(?:end_thinking|end_of_thought|/think(?:ing)?)\|>|<unused95>)"
    rf"|<(?:{_NAMES})(?:\s[^<>]{{0,100}})?>|\[think\]|◁think▷|<\|(?:start_thinking|begin_of_thought|think(?:ing)?)\|>"
    r"|<unused94>(?:thought)?",
    re.IGNORECASE,
)
#: The beginning of the answer of a model with named channels.
_FINAL = re.compile(r"<\|channel\|>final(?: [^<\n]{0,60})?<\|message\|>|assistantfinal(?=\S)")
_ANALYSIS = re.compile(r"^(?:<\|start\|>assistant)?<\|channel\|>(?:analysis|commentary)|^analysis(?=[A-Z])")
#: Marks that may enclose the whole answer, at its ends.
_AROUND = re.compile(
    r"^\s*(?:<\|(?:start_response|begin_of_solution)\|>|<(?:answer|response|output|summary)>)"
    r"|(?:<\|(?:end_response|end_of_solution|end|return|im_end)\|>|</(?:answer|response|output|summary)>)\s*$",
    re.IGNORECASE,
)
#: Characters on both sides of a quoted mark.
_QUOTES = "`'\"\u2018\u2019\u201c\u201d«»"


def text_of(content: str | Sequence[Mapping[str, Any]] | None) -> str:
    """Return the text of an answer, which some providers send in parts: reasoning has parts of its own."""
    if content is None or isinstance(content, str):
        return content or ""
    return "".join(str(part["text"]) for part in content if part.get("type") == "text")


def without_thoughts(text: str) -> str:
    """Return the answer itself; empty if the model never ended its reasoning.

    Some servers drop the opening mark. A mark in quotes is a part of the answer, which may be about such marks.
    """
    finals = list(_FINAL.finditer(text))
    if finals:
        text = text[finals[-1].end() :]
    elif _ANALYSIS.search(text.lstrip()):
        return ""
    kept, start, is_open = "", 0, False
    for mark in _MARK.finditer(text):
        if _is_quoted(text, mark):
            continue
        if mark["close"]:
            # without an opening mark, everything before it is reasoning
            kept = kept if is_open else ""
            start, is_open = mark.end(), False
        elif not is_open:
            kept, is_open = kept + text[start : mark.start()], True
    return _AROUND.sub("", kept if is_open else kept + text[start:]).strip()


def _is_quoted(text: str, mark: re.Match[str]) -> bool:
    """Return whether a mark is between backticks or quotation marks, as in a text about it."""
    before, after = text[max(0, mark.start() - 1) : mark.start()], text[mark.end() : mark.end() + 1]
    return bool(before) and before in _QUOTES and bool(after) and after in _QUOTES

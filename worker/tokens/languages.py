"""Detects the natural language of a document, and the possible languages of a word by its script."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from worker.tokens import language_model

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier


#: The language of a document that is too short, or of code.
DEFAULT = "en"
#: The language of words, and of documents, in a script of no known language.
NONE = ""
#: Languages that can be detected, by script and ISO 639-1 code. In doubt the first one of a script is assumed.
BY_SCRIPT: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "latin": (
            *(DEFAULT, "ca", "cs", "da", "de", "eo", "es", "et", "eu", "fi", "fr", "ga", "hr", "hu", "id", "it", "lt"),
            *("lv", "nl", "no", "pl", "pt", "ro", "sk", "sl", "sq", "sv", "tr", "vi"),
        ),
        "cyrillic": ("ru", "be", "bg", "mk", "sr", "uk"),
        "arabic": ("ar", "fa", "ur"),
        "devanagari": ("hi",),
        "greek": ("el",),
        "armenian": ("hy",),
        "tamil": ("ta",),
    }
)
_FIRST: Mapping[str, str] = {script: languages[0] for script, languages in BY_SCRIPT.items()}
_SCRIPTS: Mapping[str, str] = {language: script for script, languages in BY_SCRIPT.items() for language in languages}
_LETTERS: Mapping[str, re.Pattern[str]] = {
    "latin": re.compile("[A-Za-z\u00c0-\u024f\u1e00-\u1eff]+"),
    "cyrillic": re.compile("[\u0400-\u052f]+"),
    "arabic": re.compile("[\u0620-\u06ff\u0750-\u077f]+"),
    "devanagari": re.compile("[\u0900-\u097f]+"),
    "greek": re.compile("[\u0370-\u03ff\u1f00-\u1fff]+"),
    "armenian": re.compile("[\u0530-\u058f]+"),
    "tamil": re.compile("[\u0b80-\u0bff]+"),
    "other": re.compile("[\u0590-\u05ff\u0980-\u0b7f\u0c00-\U000323af]+"),
}

#: Characters of a text that are sampled, in as many parts as below. More would not change the verdict on long texts.
SAMPLE_CHARACTERS = 750
#: Parts of a long text that are sampled, because a licence or a quotation may be in another language.
SAMPLE_PARTS = 3
#: Number of letters below which a text is too short to detect its language.
MIN_LETTERS = 20
#: Probability below which the model's verdict does not count.
MIN_PROBABILITY = 0.6
#: Words that are this frequent only in English texts. Most texts are English, and the model takes far longer.
_ENGLISH_WORDS = re.compile(r"\b(?:the|of|and|to|is|with)\b", re.IGNORECASE)
_MIN_ENGLISH_SHARE = 0.1
_WORDS = re.compile(r"[^\W\d_]+")


def script_of(word: str) -> str:
    """Return the script of a word, which is its first letter's."""
    if word.isascii():
        return "latin"
    return next((script for script, letters in _LETTERS.items() if letters.match(word)), "other")


def language_of(text: str) -> str:
    """Return the language of a document as ISO 639-1 code; `DEFAULT` if the text is short or in doubt.

    Returns `NONE` if most letters are in a script of no known language.
    """
    sample = _sample(text)
    letters = {script: sum(map(len, pattern.findall(sample))) for script, pattern in _LETTERS.items()}
    script = max(letters, key=lambda name: letters[name])
    languages = BY_SCRIPT.get(script, ())
    if letters[script] < MIN_LETTERS:
        return DEFAULT
    if not languages:
        return NONE
    if len(languages) == 1 or (script == "latin" and _is_plain_english(sample)):
        return languages[0]
    language, probability = _model().classify(sample)
    return str(language) if probability >= MIN_PROBABILITY and language in languages else languages[0]


def language_for(script: str, document_language: str) -> str:
    """Return the language whose rules index words of a script in a document: its own, or the script's first one."""
    return document_language if _SCRIPTS.get(document_language) == script else _FIRST.get(script, NONE)


def candidates(script: str, written: Collection[str]) -> list[str]:
    """Return the languages whose rules indexed words of a script in documents of the languages `written`."""
    return sorted({language_for(script, language) for language in written or [DEFAULT]})


def _sample(text: str) -> str:
    part = SAMPLE_CHARACTERS // SAMPLE_PARTS
    if len(text) <= SAMPLE_CHARACTERS:
        return text
    step = (len(text) - part) // (SAMPLE_PARTS - 1)
    return "\n".join(text[start : start + part] for start in range(0, len(text) - part + 1, step))


def _is_plain_english(sample: str) -> bool:
    words = len(_WORDS.findall(sample))
    return len(_ENGLISH_WORDS.findall(sample)) >= _MIN_ENGLISH_SHARE * words


class _Shared:
    """The directory in which the processes of this installation share the model; None if they do not."""

    directory: Path | None = None


def share_model(directory: Path) -> None:
    """Share the model with other processes through files in a directory. Call it before the model is used."""
    _Shared.directory = directory


def unpack_model() -> None:
    """Create the files of the shared model, so that no document waits for them. Takes 0.6 s if they are missing."""
    if _Shared.directory is not None:
        language_model.mapped(_modelled(), _Shared.directory)


@cache
def _model() -> LanguageIdentifier:
    """Return the model for languages that share a script."""
    return language_model.load(_modelled(), _Shared.directory)


def _modelled() -> set[str]:
    return {name for languages in BY_SCRIPT.values() if len(languages) > 1 for name in languages}


@cache
def stop_words() -> Mapping[str, frozenset[str]]:
    """Return the words by language that help no search, in lower case. Languages without a list have none."""
    lists: dict[str, set[str]] = {}
    language = ""
    for line in Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            language = line.strip("[]")
        elif not line.startswith("#"):
            lists.setdefault(language, set()).update(line.split())
    return {name: frozenset(words) for name, words in lists.items() if name}

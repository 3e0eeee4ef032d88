"""The words of natural language: split alike for every store, and stemmed by the rules of their own language.

Scripts without spaces between words become pairs of neighbouring characters.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache, lru_cache, partial
from itertools import pairwise
from threading import Lock

import Stemmer

from worker.tokens.invisible import plain
from worker.tokens.languages import DEFAULT, candidates, language_for, script_of, stop_words
from worker.tokens.normal_forms import normalized
from worker.tokens.remembered import Remembered
from worker.tokens.spellings import AROUND, compounds, halves, in_letters, is_first, is_second, joined, singular, whole

#: Maximum characters of a word; longer words are data.
MAX_WORD = 64
#: Maximum number of languages whose words a process caches: a folder seldom has more.
REMEMBERED_LANGUAGES = 4

_STEMMERS = {
    "ar": "arabic",
    "ca": "catalan",
    "cs": "czech",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "eo": "esperanto",
    "es": "spanish",
    "et": "estonian",
    "eu": "basque",
    "fa": "persian",
    "fi": "finnish",
    "fr": "french",
    "ga": "irish",
    "hi": "hindi",
    "hu": "hungarian",
    "hy": "armenian",
    "id": "indonesian",
    "it": "italian",
    "lt": "lithuanian",
    "nl": "dutch",
    "no": "norwegian",
    "pl": "polish",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sr": "serbian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
#: Languages in which an accent makes another word, so that nobody omits it.
_ACCENTED = {"vi"}
#: Letters that do not decompose into their plain form.
_PLAIN = str.maketrans({"\u0131": "i", "ø": "o", "ł": "l", "đ": "d", "ß": "ss", "æ": "ae", "œ": "oe"})

#: Accents and vowel signs, which belong to the preceding letter. Hardly any exist beyond this range.
MARKS = "".join(c for c in map(chr, range(0x300, 0x12000)) if unicodedata.category(c).startswith("M"))
#: Names of languages that mean something else without their signs: `C++`, `C#`, `.NET`.
SIGNED = r"(?<![\w.])\.(?:NET|Net|net)\b|(?<!\w)[A-Za-z]+(?:\+\+(?![^\W\d]|[_+#])|\#(?![\w+#]))"
#: Pictographs, each a word; two letters make a flag. Skin tones are not words.
EMOJI = (
    "[\U0001f1e6-\U0001f1ff]{2}"
    "|[\u2194-\u2199\u21a9\u21aa\u231a-\u23ff\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u27bf\u2934\u2935"
    "\u2b05-\u2b55\u3030\u303d\U0001f000-\U0001f1e5\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
#: Han and Korean, where a single character may be a word.
_WORD_SIGNS = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af\u1100-\u11ff\uac00-\ud7af"
#: The same, and kana, Thai, Lao, Myanmar and Khmer.
_UNSPACED = (
    f"{_WORD_SIGNS}\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u1000-\u103f"
    "\u1050-\u109f\u1780-\u17d3"
)
_LETTER = rf"(?![{_UNSPACED}])[^\W_]"
_WORD = re.compile(rf"(?P<unspaced>[{_UNSPACED}]+)|{SIGNED}|{_LETTER}(?:{_LETTER}|[{MARKS}])*|{EMOJI}")
_ASCII_WORDS = re.compile("[A-Za-z0-9]+")
_SIGN = re.compile(f"[{_WORD_SIGNS}]")
#: Hiragana and its sign of a long vowel.
_HIRAGANA = re.compile("[\u3041-\u309f\u30fc]+")
#: Marks tokens that may be half of a compound. No group contains it.
_HALF = "\0"
#: Characters that no word contains, and the text between them: one word or none, with few exceptions.
_TO_SPACES = bytes(n if not chr(n).isascii() or chr(n).isalnum() or chr(n) in "_.-+#" else ord(" ") for n in range(256))

_lock = Lock()


def text_words(text: str, language: str) -> str:
    """Return the tokens of a document's text in order, separated by spaces. Time and result are linear in it."""
    return stems(groups(plain(text)), language or DEFAULT)


def groups(normal: str) -> list[str]:
    """Split a text that is `plain` where no word continues, in order. No name with signs spans two groups."""
    spaced = normal.encode(errors="surrogatepass").translate(_TO_SPACES).decode(errors="surrogatepass")
    # blanks beyond ASCII separate words within a group, but no groups
    return spaced.split() if normal.isascii() else list(filter(None, spaced.split(" ")))


def stems(of_groups: Sequence[str], language: str) -> str:
    """Return the tokens of a text's groups, and of words that it writes in two parts."""
    return with_compounds(_remembered(language).joined(of_groups), of_groups, language)


def with_compounds(found: str, of_groups: Sequence[str], language: str) -> str:
    """Return the tokens `found` in groups, with the tokens of compounds that the text writes in two words."""
    if _HALF not in found:
        return found
    tokens = found.replace(_HALF, "")
    if not _has_halves(found):
        return tokens
    return " ".join([tokens, *(_token(word, language) for word in compounds(of_groups))])


def _has_halves(found: str) -> bool:
    """Return whether both halves of a compound are adjacent among marked tokens."""
    if f"{_HALF} {_HALF}" not in found:
        return False
    sides = pairwise(found.split(f"{_HALF} {_HALF}"))
    return any((a.rpartition(" ")[2].strip(_HALF), b.partition(" ")[0].strip("+#\0")) in _halves() for a, b in sides)


@cache
def _halves() -> frozenset[tuple[str, str]]:
    """Return the stems of both halves of each compound."""
    return frozenset((_token(one, DEFAULT), _token(two, DEFAULT)) for one, two in halves())


def query_words(query: str, written: Collection[str]) -> list[str]:
    """Return the distinct tokens to search for among documents in the languages `written`.

    A word counts in each language that it may be written in. Stop words are left out, unless nothing else is left.
    """
    normal = plain(query)
    found = list(_WORD.finditer(normal))
    dropped = stop_words_of([match[0] for match in found if not match["unspaced"]], written)
    kept = [match for match in found if match[0].lower() not in dropped] or found
    tokens: dict[str, None] = {}
    ends = {match.end() for match in kept if len(match[0]) <= MAX_WORD}
    for match in kept:
        run = match["unspaced"]
        tokens.update(dict.fromkeys(_without_endings(run, match.start() in ends) if run else _asked(match[0], written)))
    for spelling in joined(normal, dropped if len(kept) < len(found) else ()):
        tokens.update(dict.fromkeys(_asked(spelling, written)))
    tokens.pop("", None)
    return list(tokens)


def _without_endings(run: str, behind: bool) -> Iterator[str]:
    """Yield the pairs of a run without endings of Japanese: those `behind` content, or behind any sign but hiragana.

    A run of hiragana alone may be a word in which such pairs are content, as `しょうが`.
    """
    for pair in _pairs(run):
        behind = behind or not _HIRAGANA.fullmatch(pair)
        if not behind or pair not in stop_words()["ja"]:
            yield pair


def _asked(word: str, written: Collection[str]) -> Iterable[str]:
    """Return the tokens of a word in each language that it may be written in. A plural also finds its singular."""
    for language in candidates(script_of(word), written):
        yield _token(word, language)
        if language == DEFAULT and (one := singular(word.lower())):
            yield _token(one, language)
    yield from in_letters(word.lower())


def stop_words_of(words: Collection[str], written: Collection[str]) -> frozenset[str]:
    """Return the stop words among the words of a query, in lower case.

    For each script, the language of the index that lists the most of its words as stop words decides.
    """
    by_script: dict[str, set[str]] = {}
    for word in words:
        by_script.setdefault(script_of(word), set()).add(word.lower())
    dropped: set[str] = set()
    for script, of_script in by_script.items():
        listed = [of_script & stop_words().get(language, frozenset()) for language in candidates(script, written)]
        most = max(map(len, listed), default=0)
        dropped |= (
            frozenset.intersection(*(frozenset(words) for words in listed if len(words) == most)) if most else set()
        )
    return frozenset(dropped)


def unspaced_pairs(text: str) -> list[str]:
    """Return the pairs of neighbouring characters of words without spaces."""
    normal = plain(text)
    return [pair for match in _WORD.finditer(normal) if match["unspaced"] for pair in _pairs(match[0])]


def is_signed(word: str) -> bool:
    """Return whether a word is a name like `C++`, `C#` or `.NET`."""
    return word[0] == "." or word[-1] in "+#"


@lru_cache(REMEMBERED_LANGUAGES)
def _remembered(language: str) -> Remembered:
    """Return the cached tokens of groups in a document of that language."""
    return Remembered(partial(of_group, language=language))


def of_group(group: str, language: str) -> str:
    """Return the tokens of a group. In English, the halves of compounds are marked."""
    tokens = _all_indexed(group, language)
    if language != DEFAULT or not tokens or not group.strip(AROUND).isalpha():
        return tokens
    second, first = is_second(group), is_first(group)
    return f"{_HALF * second}{tokens}{_HALF * first}" if second or first else tokens


def _all_indexed(text: str, language: str) -> str:
    """Return the tokens of every word of a text in NFKC."""
    if text.isascii() and text.isalnum():
        return _stem(text.lower(), language_for("latin", language)) if len(text) <= MAX_WORD else ""
    if text.isascii() and not _may_have_signs(text):
        found = _remembered(language).joined(_ASCII_WORDS.findall(text)).replace(_HALF, "")
        if "-" not in text and not text[:1].isdigit():
            return found
        tokens = [found]
    else:
        tokens = [token for match in _WORD.finditer(text) for token in _tokens_of(match, language)]
    return " ".join(filter(None, tokens + _whole(text, language)))


def _tokens_of(match: re.Match[str], language: str) -> list[str]:
    word = match[0]
    if match["unspaced"]:
        return _pairs(word) + (_SIGN.findall(word) if len(word) > 1 else [])
    return [_indexed(word, language_for(script_of(word), language))]


def _may_have_signs(text: str) -> bool:
    return "++" in text or "#" in text or ((".n" in text or ".N" in text) and ".net" in text.lower())


def _whole(text: str, language: str) -> list[str]:
    if "-" in text or ("." in text and text[0].isdigit()):
        return [_token(word, language_for(script_of(word), language)) for word in whole(text)]
    return []


def _pairs(run: str) -> list[str]:
    return [run[start : start + 2] for start in range(len(run) - 1)] or [run]


def _indexed(word: str, language: str) -> str:
    """Return the tokens of a word; a name with signs also counts without them: `count++` is found as `count`."""
    return (
        f"{_token(word, language)} {_token(word.strip('.+#'), language)}" if is_signed(word) else _token(word, language)
    )


def _token(word: str, language: str) -> str:
    """Return the stem of a word, without accents; empty if the word is too long."""
    if len(word) > MAX_WORD:
        return ""
    if word.isascii() and word.isalnum():
        return _stem(word.lower(), language)
    lower = word.lower().replace("i\u0307", "i")  # the Turkish capital
    if is_signed(lower):
        return lower
    is_ascii = lower.isascii()
    if language == DEFAULT and not is_ascii:
        # its stems are of words without accents
        lower = _without_accents(lower)
    stem = _stem(lower, language)
    return stem if is_ascii or language in _ACCENTED else _without_accents(stem)


def _stem(lower: str, language: str) -> str:
    stemmer = _stemmer(language)
    if stemmer is None:
        return lower
    with _lock:
        stem: str = stemmer.stemWord(lower)
    return stem


def _without_accents(lower: str) -> str:
    if lower.isascii() or script_of(lower) != "latin":
        return lower
    return "".join(c for c in normalized("NFD", lower.translate(_PLAIN)) if not unicodedata.combining(c))


@cache
def _stemmer(language: str) -> Stemmer.Stemmer | None:
    """Return the stemmer of a language. It is not thread-safe, and caches nothing, because its callers do."""
    name = _STEMMERS.get(language)
    return None if name is None else Stemmer.Stemmer(name, 0)

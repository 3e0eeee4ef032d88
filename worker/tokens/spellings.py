"""Spellings of one word that find each other: joined or split, with their number or unit, shortened, in the plural.

Spellings that a search adds cost an index nothing. Only words that a text splits, and that nobody would guess from the
joined word, become an additional token of the text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from worker.tokens.languages import stop_words
from worker.tokens.remembered import Remembered

#: Length of the prefix of a hash that is a token, as git shortens hashes, and the minimum digits of a longer one.
SHORT_HASH, MIN_HASH = 7, 8
#: Minimum runs of digits or letters that distinguish a hash from a word such as `decade2020`, and a longer one from a
#: number.
_MIN_RUNS, _MIN_RUNS_OF_LONG = 3, 2
#: Minimum digits of a longer hash.
LONG_HASH = 12
#: Maximum characters of a word or number to which a neighbour is joined.
MAX_APART = 16
#: Maximum words of a query whose neighbours are joined, and the lengths of a query that is joined as a whole.
MAX_JOINED_WORDS, JOINED_NAMES = 12, (3, 4)

#: Joints that only one of two spellings has; between digits they distinguish numbers.
_LOOSE_JOINTS = re.compile(r"(?<=[^\W_])[._-]+(?=[^\W\d_])|(?<=[^\W\d_])[._-]+(?=\d)")
_BETWEEN_NUMBERS = re.compile(r"\d[._-]+\d")
_NUMBER_JOINTS = re.compile(r"(?<=\d)[_-]+(?=\d)")
_VERSION = re.compile(r"[vV](?=\d+\.\d)")
_HASH = re.compile(r"(?=[0-9a-fA-F]*[0-9])(?:[0-9a-f]{8,64}|[0-9A-F]{8,64})")
_DESCRIBED = re.compile(r"g(?=[a-f]*[0-9])[0-9a-f]{7,64}")
_RUNS = re.compile(r"[0-9]+|[a-fA-F]+")

#: Kinds of characters: `0` for digits, `v` in both cases, `a` for other letters.
_KINDS = bytes(
    ord("v" if chr(n) in "vV" else "a" if chr(n).isalpha() else "0" if chr(n).isdigit() else chr(n)) for n in range(256)
)
#: A number beside a word, or a version after one, in the kinds of a text. This pattern is fast.
_BESIDE = re.compile(
    b"0(?: {1,3}[av]|(?<= 0)(?:(?<=[av] 0)|(?<=[av]  0)|(?<=[av]   0))"
    b"|(?<= v0)(?:(?<=[av] v0)|(?<=[av]  v0)|(?<=[av]   v0)))"
)
#: Characters to each side of such a digit: at most three blanks, an adjacent letter, and a `v`.
_AROUND_DIGIT = 6


class _Apart(NamedTuple):
    """A rule for words that a text splits.

    `between` matches the text between the words, `before` the first one from its end to its beginning, and `after` the
    second one. Each text with such words contains the `sign`.
    """

    between: re.Pattern[str]
    before: re.Pattern[str]
    after: re.Pattern[str]
    sign: str = " "


#: Text that must not precede the first word, read backwards, or follow the second one.
_BEGINS, _ENDS = r"(?![\w.-])", r"(?!\w)"
#: Words with joints, of at most `MAX_APART` characters in all: a bound on their parts keeps the time linear.
_NAME = r"[^\W\d_]{1,16}(?:[.-][^\W\d_]{1,16}){0,8}"
_CAPITALS, _FROM_THEIR_END = "[A-Z][A-Z0-9]{0,4}", "[A-Z0-9]{0,4}[A-Z]"
_BEHIND_NAME = r" (?<=[^\W\d_] ) {0,2}"
_NUMBERS = (
    _Apart(
        re.compile(rf"{_BEHIND_NAME}(?=\d)"),
        re.compile(_NAME + _BEGINS),
        re.compile(r"\d{1,16}(?:\.\d{1,8}){0,4}" + _ENDS),
    ),
    _Apart(
        re.compile(r" (?<=\d ) {0,2}(?=[^\W\d_])"),
        re.compile(r"(?:(?:\d{3},){1,3}\d{1,3}|\d{1,16}(?:\.\d{1,16}){0,8})" + _BEGINS),
        # with a power, as `m2`
        re.compile(r"[^\W\d_]{1,5}[23]?" + _ENDS),
    ),
    # a version: `IP v6`
    _Apart(
        re.compile(rf"{_BEHIND_NAME}(?=[vV]\d)"),
        re.compile(_NAME + _BEGINS),
        re.compile(r"[vV]\d{1,4}(?:\.\d{1,4}){0,3}" + _ENDS),
    ),
)
_SIGNS = (
    _Apart(
        re.compile(r"/(?=[A-Z0-9])(?<=[A-Z]/)"),
        re.compile(_FROM_THEIR_END + _BEGINS),
        re.compile(rf"(?:{_CAPITALS}|\d{{1,6}}){_ENDS}"),
        "/",
    ),
    # the end of a line within a word
    *(
        _Apart(
            re.compile(rf"-(?={end})(?<=[^\W\d_]-){end}[ \t]{{0,40}}"),
            re.compile(rf"[^\W\d_]{{2,}}{_BEGINS}"),
            re.compile(rf"[^\W\d_]{{2,}}{_ENDS}"),
            f"-{end}",
        )
        for end in ("\n", "\r\n")
    ),
    # speeds: `km/h`, `MB/s`, `Mbit/s`
    _Apart(
        re.compile(r"/(?=[hs])(?<=[mBbt]/)"),
        re.compile(rf"(?:mk|[Bb]i?[kKMGT]|tib[kKMGT]){_BEGINS}"),
        re.compile("[hs]" + _ENDS),
        "/",
    ),
    _Apart(
        re.compile(r"&(?=[A-Z])(?<=[A-Z]&)"),
        re.compile(_FROM_THEIR_END + _BEGINS),
        re.compile(_CAPITALS + _ENDS),
        "&",
    ),
    *(
        _Apart(
            re.compile(rf"{mark}(?=[A-ZÀ-ÖØ-Þ])(?<=[A-Z]{mark})"),
            re.compile("[A-Z]" + _BEGINS),
            re.compile(r"[^\W\d_]{3,16}" + _ENDS),
            mark,
        )
        for mark in ("'", "\u2019")
    ),
)
#: A slash to which one of the rules may apply. Other slashes are in each path.
_SLASH = re.compile("/(?=[A-Z0-9hs])(?<=[A-ZmBbt]/)")
_OTHER_SIGNS = tuple(apart for apart in _SIGNS if apart.sign != "/")
#: Names with signs that some writers spell in letters.
_IN_LETTERS = {".net": ("dotnet",), "c#": ("csharp",), "f#": ("fsharp",), "c++": ("cplusplus", "cpp")}
_WITH_SIGNS = {letters: (name,) for name, written in _IN_LETTERS.items() for letters in written}
#: Units that are stop words in some language.
_UNIT_LETTERS = frozenset("glms")
_WHOLE = re.compile(r"(?<!\w)(?:[^\W\d_]+(?:-[^\W\d_]+)+|\d+\.\d+[^\W\d_]+)(?!\w)")
_ARTICLES = "ai"
#: Plurals that also end compounds, such as `firemen`.
_ENDINGS = {
    "men": "man",
    "children": "child",
    "people": "person",
    "mice": "mouse",
    "feet": "foot",
    "teeth": "tooth",
    "shelves": "shelf",
    "selves": "self",
    "wives": "wife",
    "wolves": "wolf",
    "indices": "index",
    "vertices": "vertex",
    "matrices": "matrix",
    "analyses": "analysis",
}
_PLURALS_OF_ENDINGS = {one: plural for plural, one in _ENDINGS.items()}
#: By the sign between thousands: the sign before three digits, and the whole number. Cells of a table are no number.
_GROUPED = {
    sign: (
        re.compile(rf"{sign}(?<=\d{sign})\d{{3}}(?!\d)"),
        re.compile(rf"(?<![\w.,'])\d{{1,3}}(?:{sign}\d{{3}}){{1,4}}(?![\w,'])"),
    )
    for sign in (",", "'")
}
#: Maximum such numbers of a text that has them without their signs, too. With more, it is like a table of numbers, and
#: each new number would cost the index more than a word of prose does.
MAX_WHOLE_NUMBERS = 4
#: The same signs and others in a query.
_THOUSANDS = re.compile(
    r"(?<![\w.,'\u2019])(?<!\d )\d{1,3}(?P<sign>[,.'\u2019_ ])\d{3}(?:(?P=sign)\d{3}){0,4}(?!\w|(?P=sign)\d)"
)
#: A query that is the number of a phone or an account in groups, and its minimum characters.
_IN_GROUPS = re.compile(r"\+?[A-Za-z]{0,2}\d{2,4}(?:(?:[ -]| ?/ ?)\d{1,7}){1,9}")
_MIN_GROUPED = 8
#: An account's number (ISO 13616), and the characters of its groups.
_ACCOUNT, _GROUP = re.compile(r"[A-Za-z]{2}\d{2}[A-Za-z0-9]{11,30}"), 4
#: A date without signs.
_DATE = re.compile(r"((?:19|20)\d\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
#: The letters for German umlauts, and where they may stand for one: not behind a vowel, or at a word's end.
_OF_UMLAUTS = {"ä": "ae", "ö": "oe", "ü": "ue"}
_WITHOUT_UMLAUTS = str.maketrans(_OF_UMLAUTS)
_UMLAUTS = {letters: umlaut for umlaut, letters in _OF_UMLAUTS.items()}
_FOR_UMLAUTS = re.compile(r"(?<![aeiouq])[aou]e(?=[a-z])")
_QUERY_WORD = re.compile(r"\w+(?:[.-]\w+)*")
_NARROW = re.compile(r"[ ./&'\u2019-]{0,3}")
#: Text that may surround a word in its group.
AROUND = "._+#-"


def canonical(word: str) -> str:
    """Return the canonical spelling: `wi-fi`, `wi_fi` and `wifi` share one, and so do `v1.2` and `1.2`."""
    if word.isalnum():
        return word
    letters = without_joints(word)
    if letters.isalpha() or (letters.isalnum() and not _BETWEEN_NUMBERS.search(word)):
        # only joints at the ends stay; this takes a quarter of the time
        if word[0].isalnum() and word[-1].isalnum():
            return letters
        before, _, behind = word.partition(word.strip("._-"))
        return f"{before}{letters}{behind}"
    joined = _NUMBER_JOINTS.sub("-", _LOOSE_JOINTS.sub("", word))
    return _VERSION.sub("", joined) if joined[:1] in "vV" else joined


def without_joints(word: str) -> str:
    """Return the letters and digits of a word, without its joints."""
    return word.replace("_", "").replace("-", "").replace(".", "")


def is_hash(word: str) -> bool:
    """Return whether a word looks like a hash, or the beginning of one."""
    return bool(short_hash(word)) and len(_RUNS.findall(word)) >= (
        _MIN_RUNS if len(word) < LONG_HASH else _MIN_RUNS_OF_LONG
    )


def hash_in(name: str) -> str:
    """Return the beginning of a hash within a word, perhaps after git's `g`: `v1.2-3-g9fceb02`."""
    if not name.isalnum() or name.isalpha():
        return ""
    if is_hash(name):
        return short_hash(name)
    return name[1 : 1 + SHORT_HASH] if _DESCRIBED.fullmatch(name) else ""


def short_hash(word: str) -> str:
    """Return the beginning that finds a hash; empty if the word is not a hash, or no longer than that."""
    is_long = len(word) >= MIN_HASH and word.isalnum() and not word.isalpha()
    return word[:SHORT_HASH] if is_long and _HASH.fullmatch(word) else ""


def whole(text: str) -> Iterator[str]:
    """Return the words that a word splitter divides further: `e-mails` without its hyphen, and `3.5mm`."""
    return (match[0].replace("-", "") for match in _WHOLE.finditer(text))


def numbered(text: str) -> list[str]:
    """Return the joined spellings of words that a text splits: `ISO 27001`, `32 GB`, `TCP/IP`, `O'Reilly`."""
    places = _beside_numbers(text)
    for rule in _SIGNS if _SLASH.search(text) else _OTHER_SIGNS:
        if rule.sign in text:
            places += [(rule, place) for place in rule.between.finditer(text)]
    found = [joined for rule, place in places if (joined := _joined_pairs[_pair(text, *place.span(), rule)])]
    return [*found, *_in_thousands(text)]


def _in_thousands(text: str) -> Collection[str]:
    """Return the numbers that a text writes in thousands, without the signs; none of more than `MAX_WHOLE_NUMBERS`."""
    numbers = dict[str, None]()
    for sign, (some, number) in _GROUPED.items():
        done = 0
        for match in some.finditer(text) if sign in text else ():
            if match.start() < done:
                continue
            first = max(match.start() - 3, done)
            found = next((whole for at in range(first, match.start()) if (whole := number.match(text, at))), None)
            done = found.end() if found else match.end()
            if found:
                numbers[found[0].replace(sign, "")] = None
                if len(numbers) > MAX_WHOLE_NUMBERS:
                    return ()
    return numbers


def _beside_numbers(text: str) -> list[tuple[_Apart, re.Match[str]]]:
    """Yield the blanks between words and numbers."""
    spans = _around_digits(text) if text.isascii() else [(0, len(text))]
    return [
        (rule, place)
        for rule in (_NUMBERS if spans else ())
        for first, last in spans
        for place in rule.between.finditer(text, first, last)
    ]


def _around_digits(text: str) -> list[tuple[int, int]]:
    """Yield the parts of an ASCII text with a number beside a word. Overlapping parts are merged."""
    spans: list[tuple[int, int]] = []
    for match in _BESIDE.finditer(text.encode().translate(_KINDS)):
        first, last = max(0, match.start() - _AROUND_DIGIT), match.start() + _AROUND_DIGIT
        if spans and first <= spans[-1][1]:
            first = spans.pop()[0]
        spans.append((first, last))
    return spans


def _pair(text: str, start: int, end: int, apart: _Apart) -> str:
    """Return the words around a part of a text, with a blank between; empty if they do not match the rule."""
    second = apart.after.match(text, end)
    first = apart.before.match(text[max(0, start - MAX_APART - 1) : start][::-1]) if second else None
    return f"{first[0][::-1]} {second[0]}" if first and second and first.end() <= MAX_APART else ""


def in_letters(word: str) -> Sequence[str]:
    """Return the other spellings of a name with signs, in lower case: `.NET` is also `dotnet`."""
    return _IN_LETTERS.get(word, ()) or _WITH_SIGNS.get(word, ())


def _join_pair(pair: str) -> str:
    """Return the joined spelling of two words; empty if one of them is a stop word."""
    first, _, second = pair.partition(" ")
    return (
        ""
        if not pair or _is_stop_word(first) or _is_stop_word(second)
        else canonical(f"{first.replace(',', '')}-{second}").lower()
    )


#: The joined spellings of pairs of words.
_joined_pairs = Remembered(_join_pair)


def _is_stop_word(word: str) -> bool:
    return not word.isupper() and word not in _UNIT_LETTERS and word.lower() in _every_stop_word()


@cache
def _every_stop_word() -> frozenset[str]:
    """Return the stop words of all languages: a text of any may contain product names and years."""
    return frozenset().union(*stop_words().values())


def compounds(words: Sequence[str]) -> list[str]:
    """Return compounds that an English text writes in two words, joined: `data set`, `time outs`."""
    known = _compounds()
    pairs = ((first, _second(word)) for first, word in pairwise(words) if first in known)
    return [f"{first}{second}".lower() for first, second in pairs if second in known[first]]


def halves() -> Iterator[tuple[str, str]]:
    """Return the halves of each such compound."""
    return ((first, second) for first, seconds in _compounds().items() for second in seconds)


def is_first(word: str) -> bool:
    """Return whether a word may be the first half of such a compound."""
    return word in _compounds()


def is_second(word: str) -> bool:
    """Return whether a word may be the second half of such a compound."""
    return _second(word) in _seconds()


def _second(word: str) -> str:
    return word.strip(AROUND).lower()


@cache
def _seconds() -> frozenset[str]:
    return frozenset().union(*_compounds().values())


@cache
def _compounds() -> Mapping[str, Collection[str]]:
    """Return the second parts of compounds, in the singular and plural, by their first parts in either case."""
    known: dict[str, frozenset[str]] = {}
    for first, *seconds in _lines("compounds.txt"):
        both = frozenset([*seconds, *(f"{second}s" for second in seconds)])
        known |= {first: both, first.capitalize(): both}
    return known


def joined(query: str, dropped: Collection[str]) -> list[str]:
    """Return the joined spellings of adjacent words of a query, in lower case.

    No word is joined to a stop word before it (one in `dropped`): `is a` is not a word, but `sign off` is.
    """
    is_grouped = _IN_GROUPS.fullmatch(query.strip()) is not None and len(query) >= _MIN_GROUPED
    account = "".join(filter(str.isalnum, query)) if is_grouped else ""
    numbers = ["".join(filter(str.isdigit, number[0])) for number in _THOUSANDS.finditer(query)]
    words = list(_QUERY_WORD.finditer(query))
    stops = [_is_stop_half(word[0], dropped) for word in words]
    found = [canonical(word[0]) for word in words if not word[0].isalnum()]
    if len(words) <= MAX_JOINED_WORDS:
        for (first, second), is_stop in zip(pairwise(words), stops, strict=False):
            if not is_stop and _NARROW.fullmatch(query, first.end(), second.start()):
                found.append(canonical(f"{first[0]}-{second[0]}"))
    if len(words) in JOINED_NAMES and not any(stops):
        found.append(canonical("-".join(word[0] for word in words)))
    return list(dict.fromkeys(word.lower() for word in (*found, *numbers, account) if word.strip(AROUND)))


def asked_also(word: str) -> Iterator[str]:
    """Yield other spellings of a query's word, in lower case: German letters, an account in groups, a date's signs."""
    lower = word.lower()
    if not lower.isascii():
        yield lower.translate(_WITHOUT_UMLAUTS)
    elif "ae" in lower or "oe" in lower or "ue" in lower:
        yield _FOR_UMLAUTS.sub(lambda found: _UMLAUTS[found[0]], lower)
    if _ACCOUNT.fullmatch(word):
        yield from (lower[at : at + _GROUP] for at in range(0, len(lower), _GROUP))
    if date := _DATE.fullmatch(word):
        yield "-".join(date.groups())


def _is_stop_half(word: str, dropped: Collection[str]) -> bool:
    """Return whether a stop word cannot begin a split word. A letter may: `t shirt`. So may capitals: `U S A`."""
    return word.lower() in dropped and not word.isupper() and (len(word) > 1 or word in _ARTICLES)


def plurals(word: str) -> Sequence[str]:
    """Return the plurals of an English word that do not end in an added `s`. The word may be a plural itself."""
    words = (singular(word) or word, word.removesuffix("s"), word.removesuffix("es"))
    return next((found for each in words if (found := _plurals().get(each) or _ending(each, _PLURALS_OF_ENDINGS))), ())


def singular(word: str) -> str:
    """Return the singular of such a plural; empty if the word is not one."""
    return _singulars().get(word) or next(iter(_ending(word, _ENDINGS)), "")


def _ending(word: str, endings: Mapping[str, str]) -> list[str]:
    if not word.endswith((*endings,)):
        # as most words: to try each ending takes several times as long
        return []
    return [word.removesuffix(old) + new for old, new in endings.items() if word.endswith(old)]


@cache
def _plurals() -> Mapping[str, Sequence[str]]:
    return {one: others for one, *others in _lines("irregular_plurals.txt")}


@cache
def _singulars() -> Mapping[str, str]:
    return {plural: one for one, others in _plurals().items() for plural in others}


def _lines(name: str) -> Iterator[list[str]]:
    for line in Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            yield line.split()

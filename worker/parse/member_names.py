"""Guesses the encoding of names in an archive that does not state it."""

from __future__ import annotations

import codecs
import re
import unicodedata
from collections.abc import Sequence
from itertools import pairwise

from worker.parse.encodings import is_odd, is_utf8

#: Bytes of names from which their encoding is guessed.
_SAMPLE_BYTES = 16_384
#: Encodings of names, the usual one first.
_USUAL = ("cp437", "cp850", "cp852", "cp866", "cp1251", "cp1254", "cp1252", "gb18030", "cp932", "big5hkscs", "cp949")
#: Encodings whose likelihood is scaled by this share.
_RARER_SHARE = 0.8
_RARER = (
    *("cp1250", "cp1253", "cp1255", "cp1256", "cp1257", "cp874"),
    *("cp737", "cp857", "cp862", "cp775", "koi8-r", "koi8-u", "euc_jis_2004"),
)
_ENCODINGS = (*_USUAL, *_RARER)
_JAPANESE = {"cp932", "euc_jis_2004"}
#: Python's names of encodings that the detector names as smaller ones.
_WIDER_ENCODINGS = {"Big5": "big5hkscs", "EUC-JP": "euc_jis_2004", "EUC-KR": "cp949"}
#: Maximum odd signs that are counted in an encoding. Each halves its likelihood.
_MAX_ODDITIES = 10
#: Encodings with the common signs of a larger one. Signs that the larger one added are rare in names.
_COMMON_SIGNS = {"gb18030": "gb2312", "cp949": "euc_kr"}
#: Confidence in an encoding of Japanese if all signs are kana, which no other text looks like in it.
_OF_KANA, _KANA = 0.1, re.compile("[\u3041-\u30fc]")
#: Confidence in an encoding that the detector omits, as it does for few letters.
_LEAST_CONFIDENCE = 0.0005
#: The first letter of an alphabet that is not Latin.
_FIRST_BEYOND_LATIN = "\u0370"
#: Alphabets of which no word has letters of two.
_ALPHABETS = {"LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "HEBREW", "ARABIC", "SYRIAC", "THAANA", "NKO"}
#: Bytes beyond ASCII in different pieces of names. More are not UTF-8 by chance.
_MAX_BY_CHANCE, _BEYOND_ASCII = 8, re.compile(rb"[\x80-\xff]+")
#: Emoji, also those that Python does not know. Their first two bytes begin no word in other encodings.
_EMOJI = re.compile("[\U0001f000-\U0001ffff]")
_USUAL_SIGNS = re.compile("[\u3000-\u3003\u3008-\u3011\u2013-\u2026\uff01-\uff65]")


def likely_encoding(names: Sequence[bytes]) -> str:
    """Return the encoding in which all names are text, the likeliest if there are several."""
    from chardet import detect_all

    if all(map(is_utf8, names)) and (_is_long(names) or all(map(_is_likely, names))):
        return "utf-8"
    sample = b"\n".join(names)[:_SAMPLE_BYTES]
    found = detect_all(sample, ignore_threshold=True, include_encodings=_ENCODINGS)
    confidence = {_codec(each["encoding"]): each["confidence"] for each in found if each["encoding"]}
    fitting = [encoding for encoding in _ENCODINGS if all(_fits(name, encoding) for name in names)]
    likelihood = {
        encoding: (
            max(confidence.get(codecs.lookup(encoding).name, 0.0), _of_kana(sample, encoding)) + _LEAST_CONFIDENCE
        )
        * (_RARER_SHARE if encoding in _RARER else 1)
        / 2 ** min(_MAX_ODDITIES, _oddities(sample, encoding))
        for encoding in fitting
    }
    # of equally likely ones the first
    return max(fitting, key=likelihood.__getitem__, default="cp437")


def _is_long(names: Sequence[bytes]) -> bool:
    """Return whether names have too many bytes beyond ASCII to be UTF-8 by chance. A repeated piece counts once."""
    pieces = {piece for name in names for piece in _BEYOND_ASCII.findall(name)}
    return sum(map(len, pieces)) > _MAX_BY_CHANCE


def _is_likely(name: bytes) -> bool:
    """Return whether a name is text in UTF-8 without letters of two alphabets side by side.

    Short Chinese names have such letters if they are UTF-8 by chance.
    """
    text = "".join(sign for sign in _EMOJI.sub(" ", name.decode()) if unicodedata.category(sign) != "Cf")
    pairs = ((_alphabet(one), _alphabet(two)) for one, two in pairwise(text))
    return text.isprintable() and not any(one and two and one != two for one, two in pairs)


def _alphabet(sign: str) -> str:
    """Return the alphabet of a letter beyond ASCII; empty for other signs and scripts."""
    alphabet = "" if sign.isascii() or not sign.isalpha() else unicodedata.name(sign, "").partition(" ")[0]
    return alphabet if alphabet in _ALPHABETS else ""


def _oddities(sample: bytes, encoding: str) -> int:
    """Foreign signs that are not letters, and letters in odd places. Brackets, dashes and dots are usual in names."""
    text = _USUAL_SIGNS.sub(" ", sample.decode(encoding, "replace"))
    neighbours = zip(f" {text}", text, f"{text[1:]} ", strict=False)
    odd = sum(
        not sign.isascii()
        and (not sign.isalnum() or is_odd(before, sign, after) or (sign == "ς" and after.isalpha()))
        + _is_within_latin(before, sign, after)
        for before, sign, after in neighbours
    )
    common = _COMMON_SIGNS.get(encoding)
    return odd + (len(text) - len(text.encode(common, "ignore").decode(common)) if common else 0)


def _of_kana(sample: bytes, encoding: str) -> float:
    """Return the confidence that a text in Japanese has by its kana."""
    if encoding not in _JAPANESE:
        return 0.0
    text = sample.decode(encoding, "replace")
    return _OF_KANA * len(_KANA.findall(text)) / max(1, sum(not sign.isascii() for sign in text))


def _is_within_latin(before: str, sign: str, after: str) -> bool:
    """Return whether a letter that is not Latin is inside a Latin word, which names never have."""
    return sign >= _FIRST_BEYOND_LATIN and all(each.isascii() and each.isalpha() for each in (before, after))


def _codec(name: str) -> str:
    return codecs.lookup(_WIDER_ENCODINGS.get(name, name)).name


def _fits(name: bytes, encoding: str) -> bool:
    """Return whether a name is text in an encoding."""
    try:
        return name.decode(encoding).isprintable()
    except UnicodeDecodeError:
        return False

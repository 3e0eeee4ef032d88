"""Decodes bytes in any encoding. UTF-8 is kept as it is, except a byte order mark, so that positions match the file."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import islice
from unicodedata import category

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.formats.magic import signature_of
from worker.parse.limits import Limits

#: Byte order marks, longer ones first: the one of UTF-32 begins with that of UTF-16.
_ENCODING_OF_BOM = {
    codecs.BOM_UTF32_LE: "utf-32-le",
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}

#: The byte order mark in UTF-7, whose last letter also depends on the next character.
_UTF7 = (b"+/v8", b"+/v9", b"+/v+", b"+/v/")
#: Bytes examined to detect the encoding of text that is not UTF-8.
_SAMPLE_BYTES = 16_384
#: Bytes examined of a line on either side of a non-ASCII byte.
_LINE_RADIUS_BYTES = 1000
_NON_ASCII = re.compile(rb"[\x80-\xff]")

#: An encoding declared in a file: XML, HTML, CSS, Python, Emacs and Vim each have their own syntax.
_DECLARED = re.compile(rb"(?:charset|(?:en)?coding)\s*[=:]?\s*[\"']?([A-Za-z][\w.:-]{2,20})")

#: Encodings a declaration may name, in Python's spelling: only those that decode text.
_ENCODINGS = re.compile(
    r"(?:cp\d+|iso8859-\d+|iso2022\w+|koi8-\w|mac-\w+|gb\w+|big5\w*|shift_\w+|euc_\w+|utf-(?:16|32)\S*|tis-620)"
)

#: Further encodings that messages state.
_STATED = frozenset({"ascii", "utf-8", "utf-8-sig", "utf-7", "hz", "johab", "ptcp154", "kz1048", "hp-roman8"})
#: Encodings that are guessed. In others (EBCDIC, UTF-7, …) nearly any bytes could be text.
_GUESSABLE_ENCODINGS = (
    *("cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp874"),
    *("iso8859-1", "iso8859-2", "iso8859-5", "iso8859-7", "iso8859-9", "iso8859-15"),
    *("koi8-r", "koi8-u", "cp866", "cp437", "cp850", "cp852", "mac-roman", "mac-cyrillic"),
    *("cp932", "shift_jis_2004", "euc_jis_2004", "gb18030", "big5hkscs", "cp949", "euc_kr"),
)
#: Encodings that programs declare under the name of a smaller one, as browsers assume.
_WIDER_ENCODING = {
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
}

#: Maximum blocks of 256 characters in alphabetic text.
_MAX_ALPHABET_BLOCKS = 8
#: The blocks of Chinese, Japanese and Korean.
_EASTERN = frozenset({0x30, 0xFF, *range(0x4E, 0xA0), *range(0xAC, 0xD8)})
#: Minimum share of these blocks that outweighs a low confidence.
_MIN_EASTERN_SHARE = 0.95
#: The bytes of ASCII text with NUL.
_ASCII = frozenset(b"\0\t\n\r" + bytes(range(0x20, 0x7F)))
#: Shorter samples could be any bytes.
_MIN_SAMPLE_CHARS = 8
#: Characters beyond the first 65,536. Most are no longer in use, so they suggest a wrong encoding.
_RARE = re.compile("[\U00010000-\U0010ffff]")
#: Categories that are not text: controls, surrogates, unassigned and private characters.
_NON_TEXT_CATEGORIES = frozenset({"Cc", "Cn", "Co", "Cs"})

#: Maximum share of foreign characters in implausible positions.
_MAX_ODD_SHARE = 0.2
#: Maximum foreign characters examined.
_MAX_FOREIGN_CHARS = 2000
#: The detector's highest confidence in random bytes. Text has more than twice that confidence.
_RANDOM_CONFIDENCE = 0.05
#: Foreign characters beyond which the confidence decides. Box-drawing lines do not count.
_MIN_FOREIGN_CHARS = 20
_LINES = re.compile("[\u2500-\u257f]")
_FOREIGN = re.compile(r"[^\0-\x7f]")
_LATIN = re.compile("[\u0080-\u024f\u1e00-\u1eff]")
_EUROPEAN = re.compile("[\u0080-\u2bff]")
#: Symbols that may appear between letters: apostrophes, dashes, dots, and box-drawing lines.
_WITHIN_WORDS = re.compile("[\xad\xb7\u2010-\u2019\u2500-\u257f]")

_PLAIN = bytes(range(128))
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\v\x1b\x08")) + b"\x7f"

#: Maximum broken characters, per hundred non-ASCII ones, in a text that is still read as UTF-8.
_MAX_BROKEN_PERCENT = 10


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of plain text. Raises as `decode`."""
    return Document(decode(data), "text")


def is_utf8(data: bytes) -> bool:
    """Return whether bytes are text in UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def decode(data: bytes) -> str:
    """Return the text of `data`, without its byte order mark.

    If lines end in a carriage return alone, it becomes a newline. U+FFFD replaces the few invalid bytes of text that is
    otherwise UTF-8, and lone surrogates. Raises `FileError`: `binary`, `not_utf8` (with the byte's offset) if no
    encoding fits, `no_text`.
    """
    _refuse_signatures(data)
    text = _by_bom(data)
    if text is None:
        text = _without_bom(data)
    offset = text.find("\0")
    if offset >= 0:
        message = (
            f"The file has a NUL byte at offset {offset}, so it is not text; export it as text to make it searchable."
        )
        raise FileError(Reason.BINARY, message)
    if not text or text.isspace():
        raise FileError(Reason.NO_TEXT)
    # old Macintoshes ended lines with a carriage return
    return text.replace("\r", "\n") if "\r" in text and "\n" not in text else text


def _refuse_signatures(data: bytes) -> None:
    if signature := signature_of(data):
        shown = f"Its first bytes show that the file is not text but .{signature.kind}"
        message = f"{shown}; export it as text to make it searchable."
        raise FileError(Reason.BINARY, message)


def _by_bom(data: bytes) -> str | None:
    """Return the text by its byte order mark; None without a mark, or if the text contradicts it."""
    if data.startswith(_UTF7):
        with suppress(UnicodeDecodeError):
            return data.decode("utf-7").removeprefix("\ufeff")
    for mark, encoding in _ENCODING_OF_BOM.items():
        if data.startswith(mark):
            text = data[len(mark) :].decode(encoding, "replace")
            if text.count("\ufffd") * 100 <= len(text):
                return text
    return None


def _without_bom(data: bytes) -> str:
    body = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        return _nearly_utf8(body) or _in_other_encoding(body, error.start + len(data) - len(body))
    if "\x1b$" in text:
        return _decoded(body, "iso2022_jp") or text
    return text if "\0" not in text else _wide(body) or text


def _nearly_utf8(body: bytes) -> str | None:
    """Return UTF-8 with surrogates, as some programs write it, or with a few broken characters; otherwise None."""
    text = body.decode("utf-8", "replace")
    foreign = len(text) - len(text.encode("ascii", "ignore"))
    broken = text.count("\ufffd") - body.count("\ufffd".encode())
    if broken * 100 <= foreign * _MAX_BROKEN_PERCENT:
        return text
    try:
        both = body.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return None
    return both.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _in_other_encoding(body: bytes, offset: int) -> str:
    """Return the text in its declared or else likeliest encoding; `offset` is the first byte that is not UTF-8."""
    if b"\0" in body:
        return _wide(body) or "\0"
    declared = _DECLARED.search(body, 0, 1024)
    text = decoded(body, declared[1].decode()) if declared else None
    text = text or next((text for name in _guesses(body) if (text := decoded(body, name))), None) or _wide(body)
    if text is None:
        message = f"The byte at offset {offset} is not valid UTF-8, and no other encoding fits; save the file as UTF-8."
        raise FileError(Reason.NOT_UTF8, message)
    return text


def _wide(body: bytes) -> str | None:
    """Return the text if it is UTF-32 or UTF-16 without a byte order mark.

    Hardly anything else passes for UTF-32. In UTF-16, most characters have a zero byte, always on the same side, or
    belong to one script.
    """
    for encoding in ("utf-32-le", "utf-32-be") if len(body) % 4 == 0 else ():
        text = _decoded(body, encoding)
        if text and _is_conclusive(text[:_SAMPLE_BYTES]):
            return text
    if len(body) % 2:
        return None
    sample = body[:_SAMPLE_BYTES]
    sides = ((sample[::2], sample[1::2], "utf-16-be"), (sample[1::2], sample[::2], "utf-16-le"))
    for pages, others, encoding in sides:
        if pages.count(0) * 4 > len(sample) and not others.count(0):
            return _decoded(body, encoding)
    # blanks and line ends have a zero byte, which characters rarely have in the wrong byte order
    for pages, _, encoding in sorted(sides, key=lambda side: not side[0].count(0)):
        if _is_script(pages, sample.decode(encoding, "replace")):
            return _decoded(body, encoding)
    return None


def _is_script(pages: bytes, sample: str) -> bool:
    """Return whether characters, in these blocks of 256, are of a few blocks or Eastern, with hardly any controls.

    ASCII with a NUL would pass for Chinese, but Chinese also has bytes outside ASCII.
    """
    used = set(pages)
    of_letters = len(used) <= _MAX_ALPHABET_BLOCKS or sum(block in _EASTERN for block in pages) * 2 > len(pages)
    return of_letters and not used <= _ASCII and pages.count(b" ") * 10 <= len(pages) and _is_conclusive(sample)


def _is_conclusive(sample: str) -> bool:
    """Return whether the characters are so many, clean and common that hardly any other bytes produce them."""
    return len(sample) >= _MIN_SAMPLE_CHARS and _is_clean(sample) and len(_RARE.findall(sample)) * 10 <= len(sample)


def _is_clean(sample: str) -> bool:
    """Return whether hardly any of the characters is a control character or unassigned."""
    return sum(category(c) in _NON_TEXT_CATEGORIES and c not in "\t\r\n" for c in sample) * 100 <= len(sample)


def decoded(body: bytes, encoding: str) -> str | None:
    """Return the text if all of `body` is valid in `encoding`, or in the one that programs write under its name."""
    try:
        name = codecs.lookup(encoding).name
    except LookupError:
        return None
    return (_decoded(body, _WIDER_ENCODING[name]) if name in _WIDER_ENCODING else None) or _decoded(body, name)


def text_encoding(encoding: str) -> str:
    """Python's name of an encoding that a message states. Raises `LookupError` unless it decodes text in linear time.

    Python's decoder of names of hosts takes the square of their length.
    """
    name = codecs.lookup(encoding).name
    if not (_ENCODINGS.fullmatch(name) or name in _STATED):
        raise LookupError(f"{encoding} encodes no text of messages")
    return name


def _decoded(body: bytes, name: str) -> str | None:
    try:
        return body.decode(name) if _ENCODINGS.fullmatch(name) else None
    except UnicodeDecodeError:
        return None


def _guesses(body: bytes) -> Iterator[str]:
    """Encodings that fit, the likeliest first."""
    from chardet import detect_all

    sample = _sample(body)
    if len(sample.translate(None, _CONTROLS)) < len(sample) * 0.99:
        return
    detections = detect_all(sample, ignore_threshold=True, include_encodings=_GUESSABLE_ENCODINGS)
    likely = {detection["encoding"]: detection["confidence"] for detection in detections if detection["encoding"]}
    western = next((name for name in ("Windows-1252", "ISO-8859-1") if name in likely), None)
    # with few distinct foreign bytes the detector is unreliable, and the most common encoding wins
    certainty = 1 - 1 / len(set(sample.translate(None, _PLAIN)) or {0}) ** 3
    names = sorted(likely, key=lambda name: likely[name] * (1 if name == western else certainty), reverse=True)
    yield from (name for name in names if _is_likely(sample, name, likely[name]))
    if _is_plausible(sample):
        yield "cp1252"


def _is_likely(sample: bytes, encoding: str, confidence: float) -> bool:
    """Return whether foreign letters are combined and placed as in a language, rather than as symbols within words."""
    text = sample.decode(encoding, "replace")
    foreign = [match.start() for match in islice(_FOREIGN.finditer(text), _MAX_FOREIGN_CHARS)]
    characters = [text[position] for position in foreign]
    if (
        confidence < _RANDOM_CONFIDENCE
        and sum(not _LINES.match(character) for character in characters) > _MIN_FOREIGN_CHARS
        and not _are_eastern(characters)
    ):
        return False
    odd = sum(
        is_odd(text[position - 1 : position], text[position], text[position + 1 : position + 2]) for position in foreign
    )
    return odd <= len(foreign) * _MAX_ODD_SHARE


def _are_eastern(characters: Sequence[str]) -> bool:
    """Return whether nearly all are Eastern: random bytes are rarely valid pairs, yet short tables have rare names."""
    return sum(ord(character) >> 8 in _EASTERN for character in characters) >= _MIN_EASTERN_SHARE * len(characters)


def is_odd(before: str, character: str, after: str) -> bool:
    """Return whether a foreign character is where no European language has it. The neighbours may be empty."""
    if not _EUROPEAN.match(character):
        return False
    if character.isalpha():
        joins = any(c.isascii() and c.isalpha() for c in (before, after))
        return (character.isupper() and before.islower()) or (joins and not _LATIN.match(character))
    if category(character) in _NON_TEXT_CATEGORIES:
        return True
    return before.isalpha() and after.isalpha() and not _WITHIN_WORDS.match(character) and category(character)[0] != "M"


def _is_plausible(sample: bytes) -> bool:
    """Return whether foreign letters are isolated among ASCII, as in Western European languages."""
    return len(sample.translate(None, _PLAIN)) * 2 <= len(sample)


def _sample(body: bytes) -> bytes:
    """Lines with non-ASCII bytes, up to the sample size."""
    if len(body) <= _SAMPLE_BYTES:
        return body
    lines: list[bytes] = []
    size, end = 0, 0
    while size <= _SAMPLE_BYTES and (match := _NON_ASCII.search(body, end)):
        start = max(end, match.start() - _LINE_RADIUS_BYTES, body.rfind(b"\n", end, match.start()) + 1)
        line_end = body.find(b"\n", match.end(), match.end() + _LINE_RADIUS_BYTES)
        end = line_end + 1 or match.end() + _LINE_RADIUS_BYTES
        lines.append(body[start:end])
        size += len(lines[-1])
    return b"".join(lines)

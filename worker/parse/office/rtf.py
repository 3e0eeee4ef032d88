"""Reads rich text with striprtf, without styles except the levels of headings.

Notes, text boxes, headers and footers are moved to places where the library does not drop them.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Sequence

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from worker.parse.limits import Limits
from worker.parse.properties import properties_of
from worker.parse.text.markdown_blocks import edges, heading, paragraph

#: Properties by their control words. A value with escapes is left out.
_INFORMATION = {"title": "title", "author": "author", "subject": "description", "keywords": "keywords"}
_INFO = re.compile(rf"\{{\\({'|'.join(_INFORMATION)})\s+([^{{}}\\]{{1,1000}})\}}")
_CODE_PAGE = re.compile(r"\\ansicpg(\d{1,5})")
#: Code pages whose numbers Python does not know.
_ENCODING_OF_CODE_PAGE = {"10000": "mac_roman", "10001": "shift_jis", "10006": "mac_greek", "10007": "mac_cyrillic"}
_ENCODING_OF_CODE_PAGE |= {"10029": "mac_latin2", "10079": "mac_iceland", "10081": "mac_turkish"}
#: The control word for the character set of a document without a code page.
_CHARACTER_SET = re.compile(r"\{\\rtf\d?\s*\\(mac|pca?)(?![a-z])")
_ENCODING_OF_CHARACTER_SET = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}
#: Maximum characters in a group: a footnote with its formatting, the list of fonts, or a shape.
_MAX_GROUP_CHARS = 100_000
#: A control word that separates words, unknown to the library.
_BREAKS = {"column": "\n"}
#: Encodings of Macintosh fonts, by charset number: for some of them the library's names are unknown to Python.
_ENCODING_OF_CHARSET = {
    78: "shift_jis",
    79: "big5",
    80: "euc_kr",
    82: "cp1255",
    85: "gb2312",
    86: "mac_romanian",
    87: "mac_cyrillic",
}
_ENCODING_OF_CHARSET |= {88: "cp874", 89: "mac_latin2"}
_FONTS = re.compile(r"\{\s*\\fonttbl(?![a-z])")
_FONT = re.compile(r"\\f(\d+)([^;]*);")
_CHARSET = re.compile(r"\\fcharset(\d+)")
#: Charset number for a font that names none: the document's own.
_DEFAULT_CHARSET = "1"
_NOTE = re.compile(r"\{\s*(?:\\\*\s*)?\\footnote(?![a-z])")
#: A shape or a group of shapes, and the text in one.
_SHAPE = re.compile(r"\{\s*\\shp(?:grp)?(?![a-z])")
_BOX = re.compile(r"\{\s*\\shptxt(?![a-z])")
#: Headers and footers, one group each for left, right and first pages.
_EDGE = re.compile(r"\{\s*\\(header|footer)[lrf]?(?![a-z])")
#: Markers for where a header or footer begins, and where its text begins.
_EDGE_START = "\x03"
_EDGE_TEXT = "\x04"
#: Text proposed for deletion. The limit on the words in front of it also limits the memory that `re` takes.
_DELETED = re.compile(r"\{(?:\\(?!deleted)[a-z]+-?\d* ?){0,1000}\\deleted(?![a-z0-9])")
#: A paragraph's outline level, which precedes its text, and the marker for it there.
_OUTLINE = re.compile(r"\\outlinelevel([0-8])(?!\d) ?")
_HEADING = re.compile("\x01([0-8])\x02")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)
_WESTERN = "cp1252"
#: Line breaks may appear anywhere without meaning, even between the bytes of a character.
_BREAK_BETWEEN_BYTES = re.compile(r"(?<=\\'[0-9a-fA-F]{2})[\r\n]+(?=\\')")
#: Pictures and embedded objects, in hexadecimal digits: most of a file's bytes and none of its text.
_BINARY = re.compile(rb"[0-9a-fA-F\s]{1000,}")


def read(data: bytes, _limits: Limits) -> Document:
    """Return the document of a rich text, with offsets in its plain text. Raises `FileError` (`parse_failed`)."""
    from striprtf.striprtf import charset_map, rtf_to_text, specialchars

    charset_map.update(_ENCODING_OF_CHARSET)
    specialchars.update(_BREAKS)
    if not data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{\\rtf"):
        raise FileError(Reason.PARSE_FAILED, "The file is not valid RTF; save it as .rtf again, or rename it to .txt.")
    source, encoding = _without_code_page(_BREAK_BETWEEN_BYTES.sub("", _BINARY.sub(b"", data).decode("latin-1")))
    source = _with_edges_last(_with_boxes(_without_deleted(_with_charsets(source))))
    source = _OUTLINE.sub("\\g<0> \x01\\1\x02", _with_notes(source))
    text: str = rtf_to_text(source, encoding=encoding, errors=_ERRORS if encoding == "utf-8" else "replace")
    stated = {_INFORMATION[match[1]]: match[2] for match in _INFO.finditer(source, 0, 65_536)}
    properties = properties_of(**stated)
    title = properties.title or None
    # characters beyond 16 bits are written as surrogate pairs
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    text, *edge_texts = text.split(_EDGE_START)
    text = "\n\n".join(filter(None, [text.strip("\n"), *_edges(edge_texts)]))
    if _HEADING.search(text):
        text = "\n".join(map(_as_markdown, text.split("\n"))).strip("\n")
        return Document(text, "rtf", title=title, markup="markdown", properties=properties)
    return Document(text, "rtf", title=title, properties=properties)


def _edges(edge_texts: Sequence[str]) -> Iterator[str]:
    parts = [_HEADING.sub("", text).partition(_EDGE_TEXT) for text in edge_texts]
    for kind in ("header", "footer"):
        yield from edges(kind, (text for edge, _, text in parts if edge == kind))


def _as_markdown(line: str) -> str:
    """Convert a line to Markdown."""
    level, plain = _HEADING.search(line), _HEADING.sub("", line)
    return f"\n{heading(int(level[1]) + 1, plain)}\n" if level and plain.strip() else paragraph(plain)


def _with_charsets(source: str) -> str:
    """Give every font an explicit charset: the library gives a font without one the charset of the next font."""
    fonts = _FONTS.search(source)
    end = _end_of_group(source, fonts.end()) if fonts else None
    if fonts is None or end is None:
        return source
    charsets = ((font[1], _CHARSET.search(font[2])) for font in _FONT.finditer(source, fonts.end(), end))
    definitions = "".join(
        f"{{\\f{number}\\fcharset{charset[1] if charset else _DEFAULT_CHARSET} -;}}" for number, charset in charsets
    )
    return f"{source[: fonts.end()]}{definitions}{source[end:]}"


def _with_notes(source: str) -> str:
    """Put footnotes in brackets where they are referred to: the library leaves them out."""
    return _replaced(source, _NOTE, lambda note: f"{{ ({note.lstrip()})}}")


def _with_boxes(source: str) -> str:
    """Replace shapes with the text of their boxes: the library leaves shapes out."""
    return _replaced(
        source, _SHAPE, lambda shape: "".join(f"{{\\par {box}\\par }}" for _, box, _ in _groups(shape, _BOX))
    )


def _without_deleted(source: str) -> str:
    return _replaced(source, _DELETED, lambda _: "")


def _with_edges_last(source: str) -> str:
    """Repeat headers and footers after the text: the library leaves them out where they are."""
    repeated = [f"{{{_EDGE_START}{edge[1]}{_EDGE_TEXT} {text}}}" for edge, text, _ in _groups(source, _EDGE)]
    last = source.rfind("}")
    return f"{source[:last]}{''.join(repeated)}{source[last:]}" if repeated else source


def _replaced(source: str, opening: re.Pattern[str], replacement: Callable[[str], str]) -> str:
    """Replace each outermost group that starts with `opening` by the result of `replacement` on its content."""
    parts, done = [], 0
    for match, inside, end in _groups(source, opening):
        if match.start() >= done:
            parts += [source[done : match.start()], replacement(inside)]
            done = end
    return "".join([*parts, source[done:]])


def _groups(source: str, opening: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str, int]]:
    """Yield the opening match, content and end of each group. A group that is never closed is skipped."""
    for match in opening.finditer(source):
        end = _end_of_group(source, match.end())
        if end is not None:
            yield match, source[match.end() : end], end + 1


def _end_of_group(source: str, start: int) -> int | None:
    """Return the position of the brace that closes the group around `start`; None if it is missing or too far away."""
    depth = 1
    for brace in _BRACE.finditer(source, start, start + _MAX_GROUP_CHARS):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if not depth:
            return brace.start()
    return None


def _without_code_page(source: str) -> tuple[str, str]:
    """Return the source without its code page, and its encoding. The library takes unknown code pages for UTF-8."""
    code_page = _CODE_PAGE.search(source, 0, 4096)
    if code_page is None:
        character_set = _CHARACTER_SET.match(source)
        return source, _ENCODING_OF_CHARACTER_SET[character_set[1]] if character_set else _WESTERN
    # another control word in its place keeps its neighbours apart
    return rf"{source[: code_page.start()]}\ansi{source[code_page.end() :]}", _encoding(code_page[1])


def _encoding(page: str) -> str:
    try:
        return _ENCODING_OF_CODE_PAGE.get(page) or codecs.lookup(f"cp{page}").name
    except LookupError:
        return _WESTERN


def _as_western(error: UnicodeError) -> tuple[str, int]:
    """Decode bytes that are not UTF-8 in a document that claims it: its writer used the system's code page."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return error.object[error.start : error.end].decode(_WESTERN, "replace"), error.end


_ERRORS = "foldex.western"
codecs.register_error(_ERRORS, _as_western)

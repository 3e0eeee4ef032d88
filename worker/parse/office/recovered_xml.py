"""Recovers damaged XML: truncated, with invalid characters, or with tags that do not match."""

from __future__ import annotations

import re
from html import unescape
from html.entities import html5

from lxml import etree

#: A document type without declarations of its own, and entity declarations, which might expand without end.
_DOCUMENT_TYPE = re.compile(rb"<!DOCTYPE[^\[<>]{0,1000}>")
_DECLARATIONS = (b"<!DOCTYPE", b"<!ENTITY")
#: The beginning of XML in UTF-16, with a byte order mark and without one.
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
_UNMARKED = {b"<\0": "utf-16-le", b"\0<": "utf-16-be"}
_HEAD = re.compile(r"<\?xml[^<>]*\?>")
#: Characters that XML does not allow, also as references.
_INVALID = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]"
    "|&#(?:0{0,6}(?:[0-8]|1[124-9]|2[0-9]|3[01])|[xX]0{0,6}(?:[0-8bcefBCEF]|1[0-9a-fA-F]));"
)
#: An ampersand, with the rest of a reference, and a sign that begins no tag.
_AMPERSAND = re.compile(r"&(?:(\w{1,31};)|(?!#(?:\d{1,7}|[xX][0-9a-fA-F]{1,6});))")
_NO_TAG = re.compile(r"<(?![\w/!?:])")
_OF_XML = {"amp;", "lt;", "gt;", "quot;", "apos;"}
#: The first tag, which never ends in a slash here, and its name.
_ROOT = re.compile(r"<([\w:.-]{1,100})[\s>]")

#: Elements of Office Open XML with text, and those that end a line.
_TEXT = re.compile(r"<(?:\w+:)?[tv](?:\s[^<>]*)?>([^<]*)|</(?:\w+:)?(p|si|is|v|tr|row|comment)>")
#: The number of a text that is stored elsewhere, as the value of a cell.
_SHARED = re.compile(r"(<(?:\w+:)?c\s(?:[^<>]*\s)?t=[\"']s[\"'][^<>]*>)\s*<(?:\w+:)?v>\d*<")
#: A prefix of an element or an attribute, and a declaration of one.
_PREFIX = re.compile(r"(?<=[</\s])([A-Za-z_][\w.-]{0,60}):(?=[A-Za-z_][\w.-]{0,60}[\s/>=])")
_DECLARED = re.compile(r"xmlns:([\w.-]{1,60})\s*=")
_TAG = re.compile(r"<[^<>]*>")
#: Elements of OpenDocument that end a line.
_END_OF_LINE = re.compile(r"</text:(?:p|h)>|<text:line-break/>")


def sound(content: bytes) -> bytes | None:
    """Return the XML itself if it is well-formed, else its readable part; None if there is none."""
    if content[:2] in _WIDE_MARKS or b"\0" in content[:4]:
        content = _cleaned(content).encode()
    content = _DOCUMENT_TYPE.sub(b"", content, count=1)
    if any(mark in content for mark in _DECLARATIONS):
        return None
    if _parse(content, recover=False) is not None:
        return content
    text = _cleaned(content)
    if root_tag := _ROOT.search(text):
        # a closing root tag in the middle would hide the rest
        text = text.replace(f"</{root_tag[1]}>", "")
    text = _without_unbound(text)
    root = _parse(text.encode(), recover=True)
    if root is None or not (len(root) or (root.text or "").strip()):
        return None
    made: bytes = etree.tostring(root, encoding="UTF-8", xml_declaration=True)
    return made


def _parse(content: bytes, *, recover: bool) -> etree._Element | None:
    parser = etree.XMLParser(recover=recover, resolve_entities=False, no_network=True)
    try:
        root: etree._Element | None = etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None
    return root


def _cleaned(content: bytes) -> str:
    marked, unmarked = content[:2] in _WIDE_MARKS, _UNMARKED.get(content[:2], "utf-8")
    text = content.decode("utf-16" if marked else unmarked, "replace").removeprefix("\ufeff")
    text = _INVALID.sub("", _HEAD.sub("", text, count=1))
    return _NO_TAG.sub("&lt;", _AMPERSAND.sub(_reference, text))


def _without_unbound(text: str) -> str:
    """Return the text without undeclared prefixes."""
    declared = {"xml", "xmlns", *_DECLARED.findall(text)}
    return _TAG.sub(lambda tag: _PREFIX.sub(lambda found: found[0] if found[1] in declared else "", tag[0]), text)


def _reference(found: re.Match[str]) -> str:
    name = found[1]
    if name in _OF_XML:
        return found[0]
    # a sign of XML in the text must not become markup
    return html5.get(name, f"&amp;{name}") if name else "&amp;"


def plain_text(content: bytes, *, is_open_document: bool = False) -> str:
    """Return the text of a part, line by line, regardless of its markup."""
    text = _cleaned(content)
    if is_open_document:
        lines = unescape(_TAG.sub("", _END_OF_LINE.sub("\n", text))).split("\n")
    else:
        text = _SHARED.sub(r"\1<", text)
        parts = (found[1] if found[2] is None else "\n" for found in _TEXT.finditer(text))
        lines = unescape("".join(parts)).split("\n")
    return "\n".join(filter(None, (" ".join(line.split()) for line in lines)))

"""The table of formats: one row defines how files of a format are recognized, and which module reads them."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

_OFFICE_XML = "application/vnd.openxmlformats-officedocument"


@dataclass(frozen=True, slots=True)
class Signature:
    """First bytes of a kind of binary file, as a regular expression without groups.

    `kind` is the extension such files usually have. `is_media` is set for programs, sound, films and fonts.
    """

    kind: str
    pattern: bytes
    mime: str | None = None
    is_media: bool = False


_READ_AS_TEXT = "worker.reading.ways:TEXT"
_READ_AS_JSON = "worker.reading.ways:JSON"


@dataclass(frozen=True, slots=True)
class Format:
    """One row of the table.

    `type` is what `file_type` shows; `extensions` are separated by blanks. `reader` is imported on first use and called
    as `read(data: bytes, limits: Limits) -> Document`; that of "code" as `read(text: str, language: str | None,
    limits: Limits)`. The document's `markup` says how it is cut. Raise `version` when parsing or chunking of the type
    changes: the next run then parses its files again, in place.

    `isolated` formats use libraries that may crash or use excessive memory. They are read in a helper process, except
    files of at most `harmless` bytes. A `binary` format without its signature is text under a wrong name. `programs` on
    PATH extend what the module can read.

    Content is recognised by its `signatures`, and text by its `beginnings`, in lower case. A ZIP container is
    recognised by a `member`, given by its path or the start of it, or by the start of the `package_type` in its first
    member. A compound file of old programs is recognised by the name of a `stream`, in any case. The content of `.xml`
    is recognised by a `root`: a regular expression that is searched for up to the end of its second tag.

    The text of `as_written` formats is the decoded file, so line numbers of the text and the file agree. A source may
    state the type of files with `stated` extensions. `headings` finds those of a text that is cut at headings.
    `reading` names the way in which a text is read that is written otherwise, with escapes or entities.
    """

    type: str
    extensions: str
    reader: str
    version: int = 1
    mime: str = "text/plain"
    isolated: bool = False
    harmless: int = 0
    binary: bool = False
    programs: tuple[str, ...] = ()
    signatures: tuple[Signature, ...] = ()
    beginnings: tuple[bytes, ...] = ()
    member: str | None = None
    package_type: str | None = None
    stream: str | None = None
    root: bytes | None = None
    as_written: bool = False
    stated: str = ""
    headings: str = "worker.parse.text.markdown:headings"
    reading: str = ""

    def is_isolated(self, size: int) -> bool:
        """Return whether a file of `size` bytes is read in the helper process."""
        return self.isolated and size > self.harmless


def import_function(reference: str) -> Any:
    """Return the function that a row names as "module:function"."""
    module, _, function = reference.partition(":")
    return getattr(import_module(module), function)


FORMATS = (
    Format("text", "txt", "worker.parse.encodings:read", version=4, as_written=True, reading=_READ_AS_TEXT),
    Format("code", "", "worker.parse.source_code:read", version=8, as_written=True, reading="worker.reading.ways:CODE"),
    Format(
        "markdown",
        "md markdown mdown mkd mdx",
        "worker.parse.text.markdown:read",
        version=6,
        mime="text/markdown",
        as_written=True,
        stated="md markdown mdown mkd mdx",
        reading="worker.reading.ways:MARKDOWN",
    ),
    Format(
        "rst",
        "rst",
        "worker.parse.text.rst:read",
        mime="text/x-rst",
        as_written=True,
        headings="worker.parse.text.rst:headings",
        reading=_READ_AS_TEXT,
    ),
    Format(
        "asciidoc",
        "adoc asciidoc",
        "worker.parse.text.asciidoc:read",
        mime="text/asciidoc",
        as_written=True,
        headings="worker.parse.text.asciidoc:headings",
        reading=_READ_AS_TEXT,
    ),
    Format(
        "org",
        "org",
        "worker.parse.text.org:read",
        version=2,
        mime="text/org",
        as_written=True,
        headings="worker.parse.text.org:headings",
        reading=_READ_AS_TEXT,
    ),
    Format(
        "tex",
        "tex ltx",
        "worker.parse.text.tex:read",
        version=3,
        mime="text/x-tex",
        as_written=True,
        headings="worker.parse.text.tex:headings",
        reading="worker.reading.ways:TEX",
    ),
    Format(
        "json",
        "json geojson webmanifest jsonc",
        "worker.parse.data.json:read",
        version=5,
        mime="application/json",
        # parsed values take up to thirty times the memory of their text
        isolated=True,
        harmless=1 << 20,
        as_written=True,
        stated="json geojson webmanifest",
        reading=_READ_AS_JSON,
    ),
    Format(
        "notebook",
        "ipynb",
        "worker.parse.text.notebook:read",
        version=2,
        mime="application/x-ipynb+json",
        isolated=True,
        harmless=1 << 20,
        reading=_READ_AS_TEXT,
    ),
    Format(
        "jsonl",
        "jsonl ndjson",
        "worker.parse.data.jsonl:read",
        version=2,
        mime="application/jsonl",
        as_written=True,
        reading=_READ_AS_JSON,
    ),
    Format(
        "yaml",
        "yaml yml",
        "worker.parse.data.yaml:read",
        version=4,
        mime="application/yaml",
        as_written=True,
        reading=_READ_AS_TEXT,
    ),
    Format(
        "toml",
        "toml",
        "worker.parse.data.toml:read",
        version=4,
        mime="application/toml",
        as_written=True,
        reading=_READ_AS_TEXT,
    ),
    Format(
        "csv",
        "csv tsv",
        "worker.parse.data.csv:read",
        version=4,
        mime="text/csv",
        as_written=True,
        reading=_READ_AS_TEXT,
    ),
    Format(
        "html",
        "html htm xhtml",
        "worker.parse.web.html:read",
        version=8,
        mime="text/html",
        isolated=True,
        beginnings=(b"<!doctype html", b"<html"),
    ),
    Format(
        "xml",
        "xml xsd xsl xslt svg plist",
        "worker.parse.xml.xml:read",
        version=4,
        mime="application/xml",
        beginnings=(b"<?xml",),
        as_written=True,
        reading=_READ_AS_TEXT,
    ),
    Format(
        "fb2",
        "fb2",
        "worker.parse.xml.articles:read_fb2",
        version=3,
        mime="application/x-fictionbook+xml",
        isolated=True,
        root=rb"<(?:\w+:)?FictionBook\b",
    ),
    Format(
        "docbook",
        "dbk docbook",
        "worker.parse.xml.articles:read_docbook",
        version=3,
        mime="application/docbook+xml",
        isolated=True,
        root=rb"//OASIS//DTD (?:Simplified )?DocBook |<[^<>]+xmlns(?::\w+)?\s*=\s*[\"']http://docbook\.org/ns/docbook",
    ),
    Format(
        "jats",
        "nxml jats",
        "worker.parse.xml.articles:read_jats",
        version=4,
        mime="application/jats+xml",
        isolated=True,
        root=rb"//NLM//DTD |<article\s[^<>]*\b(?:article-type|dtd-version)\s*=|<article\b[^<>]*>\s*<front>",
    ),
    Format(
        "opml",
        "opml",
        "worker.parse.xml.opml:read",
        version=2,
        mime="text/x-opml",
        isolated=True,
        root=rb"<opml\b",
        # entries contain text of web pages
        reading=_READ_AS_TEXT,
    ),
    Format(
        "subtitles", "vtt srt", "worker.parse.text.subtitles:read", version=2, mime="text/vtt", reading=_READ_AS_TEXT
    ),
    Format(
        "bibtex",
        "bib",
        "worker.parse.text.bib:read",
        version=2,
        mime="application/x-bibtex",
        as_written=True,
        headings="worker.parse.text.bib:headings",
        reading="worker.reading.ways:TEX",
    ),
    Format("email", "eml mht mhtml", "worker.parse.mail.email:read", version=7, mime="message/rfc822", isolated=True),
    Format("mbox", "mbox", "worker.parse.mail.mbox:read", version=2, mime="application/mbox", isolated=True),
    Format(
        "msg",
        "msg",
        "worker.parse.mail.msg:read",
        version=3,
        mime="application/vnd.ms-outlook",
        isolated=True,
        binary=True,
        stream="__properties_version1.0",
    ),
    Format(
        "rtf",
        "rtf",
        "worker.parse.office.rtf:read",
        version=8,
        mime="application/rtf",
        isolated=True,
        # its files are text, so the signature has no MIME type of its own
        signatures=(Signature("rtf", rb"\{\\rtf"),),
        beginnings=(b"{\\rtf",),
    ),
    Format(
        "pdf",
        "pdf",
        "worker.parse.pdf.pdf:read",
        version=9,
        isolated=True,
        binary=True,
        programs=("tesseract",),
        signatures=(Signature("pdf", rb"%PDF-", "application/pdf"),),
    ),
    Format(
        "docx",
        "docx docm dotx dotm",
        "worker.parse.office.docx:read",
        version=7,
        mime=f"{_OFFICE_XML}.wordprocessingml.document",
        isolated=True,
        binary=True,
        member="word/document.xml",
    ),
    Format(
        "doc",
        "doc dot",
        "worker.parse.office.doc:read",
        stream="WordDocument",
        version=7,
        mime="application/msword",
        isolated=True,
        binary=True,
        programs=("catdoc", "antiword", "soffice", "libreoffice"),
    ),
    Format(
        "pptx",
        "pptx pptm ppsx ppsm potx potm ppt pps",
        "worker.parse.office.pptx:read",
        version=7,
        mime=f"{_OFFICE_XML}.presentationml.presentation",
        isolated=True,
        binary=True,
        programs=("tesseract",),
        member="ppt/presentation.xml",
    ),
    Format(
        "xls",
        "xls xlt xlsb",
        "worker.parse.office.xls:read",
        version=5,
        mime="application/vnd.ms-excel",
        isolated=True,
        binary=True,
        member="xl/workbook.bin",
        stream="Workbook",
    ),
    Format(
        "xlsx",
        "xlsx xlsm xltx xltm xlam",
        "worker.parse.office.xlsx:read",
        version=10,
        mime=f"{_OFFICE_XML}.spreadsheetml.sheet",
        isolated=True,
        binary=True,
        member="xl/workbook.",
    ),
    Format(
        "odt",
        "odt odp ods",
        "worker.parse.office.odt:read",
        version=8,
        isolated=True,
        binary=True,
        package_type="application/vnd.oasis.opendocument.",
    ),
    Format(
        "fodt",
        "fodt fods fodp",
        "worker.parse.office.odt:read_flat",
        version=4,
        mime="application/vnd.oasis.opendocument.text-flat-xml",
        isolated=True,
        root=rb"<office:document\s",
    ),
    Format(
        "epub",
        "epub",
        "worker.parse.web.epub:read",
        version=6,
        isolated=True,
        binary=True,
        package_type="application/epub+zip",
    ),
    Format(
        "image",
        "png jpg jpeg jpe gif bmp tif tiff webp",
        "worker.parse.ocr.image:read",
        version=3,
        isolated=True,
        binary=True,
        programs=("tesseract",),
        signatures=(
            Signature("png", rb"\x89PNG", "image/png"),
            Signature("jpg", rb"\xff\xd8\xff", "image/jpeg"),
            # its sizes and flags contain a byte that never occurs in text
            Signature("gif", rb"GIF8[79]a.{0,6}[\0-\x08\x0e-\x1f]", "image/gif"),
            # two letters alone might begin a text
            Signature("bmp", rb"BM....\0\0\0\0", "image/bmp"),
            Signature("tif", rb"II\*\0|MM\0\*", "image/tiff"),
            Signature("webp", rb"RIFF....WEBP", "image/webp"),
        ),
    ),
)

#: A document in a ZIP container. One of Office may be a single XML text. Its members determine the type, and only
#: the helper process reads them.
PACKAGE = Format(
    "package",
    "",
    "worker.parse.office.zip_container:read",
    isolated=True,
    # the first tag alone, because stylesheets name the namespaces, too
    root=rb"\A(?:[^<]|<[?!])*<(?:\w+:)?(?:package|wordDocument)\s[^<>]*"
    rb"http://schemas\.microsoft\.com/office/(?:2006/xmlPackage|word/2003/wordml)",
)

BY_TYPE = {format_.type: format_ for format_ in FORMATS}
BY_EXTENSION = {extension: format_ for format_ in FORMATS for extension in format_.extensions.split()}
BY_KIND = {signature.kind: format_ for format_ in FORMATS for signature in format_.signatures}

#: Types whose text is the decoded file itself.
AS_WRITTEN = tuple(format_.type for format_ in FORMATS if format_.as_written)

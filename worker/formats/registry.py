"""The table of formats: each one's extensions, the module that reads it, and its version."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.document import EXTENSIONS


@dataclass(frozen=True, slots=True)
class Format:
    """One row of the table.

    `type` is what `file_type` shows; `extensions` are separated by blanks. `module` is under `worker.parse`, has
    `read(data: bytes, limits: Limits) -> Document` and is imported on first use. The module for "code" has
    `read(text: str, language: str | None, limits: Limits)`. Raise `version` when parsing or chunking of the type
    changes: the next run then parses its files again, in place. `isolated` formats use libraries that may crash or use
    excessive memory. They are read in a helper process, except files of at most `harmless` bytes. A `binary` format
    without its magic bytes (`worker.formats.magic`) is text under a wrong name. `programs` on PATH extend what the
    module can read.
    """

    type: str
    extensions: str
    module: str
    version: int = 1
    isolated: bool = False
    harmless: int = 0
    binary: bool = False
    programs: tuple[str, ...] = ()

    def is_isolated(self, size: int) -> bool:
        """Whether a file of `size` bytes is read in the helper process."""
        return self.isolated and size > self.harmless


FORMATS = (
    Format("text", "txt", "text.encodings", version=3),
    Format("code", "", "source_code", version=5),
    Format("markdown", EXTENSIONS["markdown"], "text.markdown", version=3),
    Format("rst", "rst", "text.rst"),
    Format("asciidoc", "adoc asciidoc", "text.asciidoc"),
    Format("org", "org", "text.org"),
    Format("tex", "tex ltx", "text.tex"),
    # parsed values take up to thirty times the memory of their text
    Format("json", f"{EXTENSIONS['json']} jsonc", "text.json", version=4, isolated=True, harmless=1 << 20),
    Format("notebook", "ipynb", "text.notebook", version=2, isolated=True, harmless=1 << 20),
    Format("jsonl", "jsonl ndjson", "text.jsonl", version=2),
    Format("yaml", "yaml yml", "text.yaml", version=2),
    Format("toml", "toml", "text.toml", version=2),
    Format("csv", "csv tsv", "text.csv", version=3),
    Format("html", "html htm xhtml", "web.html", version=4, isolated=True),
    Format("xml", "xml xsd xsl xslt svg plist", "text.xml", version=2),
    Format("email", "eml mht mhtml", "mail.email", version=4, isolated=True),
    Format("rtf", "rtf", "office.rtf", version=5, isolated=True),
    Format("pdf", "pdf", "pdf.pdf", version=4, isolated=True, binary=True, programs=("tesseract",)),
    Format("docx", "docx docm dotx", "office.docx", version=3, isolated=True, binary=True),
    Format(
        "doc",
        "doc",
        "office.doc",
        version=3,
        isolated=True,
        binary=True,
        programs=("catdoc", "antiword", "soffice", "libreoffice"),
    ),
    Format("pptx", "pptx pptm", "office.pptx", version=3, isolated=True, binary=True),
    Format("xlsx", "xlsx xlsm", "office.xlsx", version=5, isolated=True, binary=True),
    Format("odt", "odt odp ods", "office.odt", version=4, isolated=True, binary=True),
    Format("epub", "epub", "web.epub", version=3, isolated=True, binary=True),
    Format(
        "image",
        "png jpg jpeg jpe gif bmp tif tiff webp",
        "ocr.image",
        version=2,
        isolated=True,
        binary=True,
        programs=("tesseract",),
    ),
)

BY_TYPE = {format_.type: format_ for format_ in FORMATS}
BY_EXTENSION = {extension: format_ for format_ in FORMATS for extension in format_.extensions.split()}

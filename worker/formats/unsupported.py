"""Tells which files cannot be read, by name, and which helper programs this machine has."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from shutil import which

from worker.formats.by_name import split

#: Extensions that hold no text or are not supported, by the advice for the file's owner.
_UNSUPPORTED = {
    "A spreadsheet of this kind is not read; save it as .xlsx or .csv.": "xls xlsb xlt numbers",
    "A presentation of this kind is not read; save it as .pptx or .pdf.": "ppt pps",
    "A document of this kind is not read; save it as .docx, .pdf or .odt.": "pages wpd wps hwp one xps oxps",
    "An e-book of this kind is not read; convert it to .epub or .pdf.": "mobi azw azw3 djvu fb2",
    "An e-mail store is not read; export its messages as .eml.": "pst ost mbox",
    "An image of this kind is not read; save it as .png or .jpg.": (
        "avif heic heif ico icns psd ai eps xcf cr2 nef dng jxl odg"
    ),
    "Audio is not read; add a transcript as .txt or .md.": "mp3 wav flac ogg oga opus m4a aac wma aif aiff mid midi",
    "Video is not read; add a transcript as .txt or .md.": "mp4 m4v mov avi mkv webm wmv flv mpg mpeg 3gp",
    "An archive is not read; unpack it beside itself.": (
        "zip tar gz tgz bz2 tbz2 xz txz zst 7z rar jar war ear whl egg apk ipa dmg iso cab deb rpm lz4 crx"
    ),
    "An executable or compiled file is not read; index its source instead.": (
        "exe dll so dylib o bin class pyc pyo pyd wasm elc beam node msi"
    ),
    "A font holds no text; exclude it.": "ttf otf woff woff2 eot ttc",
    "A database is not read; export its tables as .csv.": "db sqlite sqlite3 mdb accdb dbf",
    "A binary data file is not read; export it as .csv or .jsonl.": (
        "parquet avro orc feather arrow npy npz pkl pickle h5 hdf5 onnx pt pth safetensors gguf rds"
    ),
    "A design or model file is not read; export it as .pdf.": "dwg dxf blend fbx glb stl 3ds sketch fig",
}


def unsupported(name: str) -> str | None:
    """Advice for the owner of a file whose name has an unsupported type; None if the type is supported."""
    return _REFUSALS.get(split(name)[1])


@cache
def programs(names: tuple[str, ...]) -> tuple[str, ...]:
    """The given programs that this machine has. Cached, so a worker must restart to find new ones."""
    return tuple(name for name in names if which(name) and (name != "tesseract" or has_ocr()))


def has_ocr() -> bool:
    """Whether the libraries that pass pictures to Tesseract are installed."""
    return all(find_spec(library) for library in ("PIL", "pytesseract"))


_REFUSALS = {extension: sentence for sentence, extensions in _UNSUPPORTED.items() for extension in extensions.split()}

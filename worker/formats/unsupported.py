"""Lists files that are not read, by name and by content, and finds this machine's helper programs."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from shutil import which

from worker.formats.by_name import split
from worker.formats.registry import Signature

#: Extensions without text or support, by the advice for the file's owner.
UNSUPPORTED = {
    "This spreadsheet format is not supported; save the file as .xlsx or .csv.": "numbers",
    "This document format is not supported; save the file as .docx, .pdf or .odt.": (
        "pages wpd wps hwp hwpx sxw lwp one onepkg onetoc2 xps oxps pub"
    ),
    "This e-book format is not supported; convert the file to .epub or .pdf.": "mobi azw azw3 kfx lit djvu cbz cbr",
    "Compiled help is not supported; extract its pages as .html.": "chm",
    "Links to documents of Google hold no text; download the document as .docx, .xlsx or .pptx.": "gdoc gsheet gslides",
    "Plans of projects are not supported; export the file as .xlsx or .pdf.": "mpp",
    "Mind maps of this format are not supported; export the file as .opml or .md.": "xmind mmap",
    "E-mail archives are not supported; export the messages as .eml or .mbox.": "pst ost",
    "This image format is not supported; save the file as .png or .jpg.": (
        "avif heic heif ico icns psd ai eps xcf cr2 nef dng jxl odg"
    ),
    "Audio is not supported; add a transcript as .txt or .md.": (
        "mp3 wav flac ogg oga opus m4a aac wma aif aiff mid midi"
    ),
    "Video is not supported; add a transcript as .txt or .md.": "mp4 m4v mov avi mkv webm wmv flv mpg mpeg 3gp",
    "Archives are not read; extract the archive, or add `archives` to config.containers for .zip and .tar.": (
        "zip tar gz tgz bz2 tbz2 xz txz zst 7z rar jar war ear whl egg apk ipa dmg iso cab deb rpm lz4 crx"
    ),
    "Executables and compiled files are not supported; index their source instead.": (
        "exe dll so dylib o class pyc pyo pyd wasm elc beam node msi"
    ),
    "Foldex does not read this binary file; export its content as .txt, .csv or .pdf.": "bin",
    "Fonts contain no text; exclude the file.": "ttf otf woff woff2 eot ttc",
    "Database files are not supported; export the tables as .csv.": "db sqlite sqlite3 mdb accdb dbf",
    "Binary data files are not supported; export the data as .csv or .jsonl.": (
        "parquet avro orc feather arrow npy npz pkl pickle h5 hdf5 onnx pt pth safetensors gguf rds"
    ),
    "Diagrams of Visio are not supported; export the file as .pdf.": "vsd vsdx vsdm vss vssx vst vstx vdx",
    "Design and model files are not supported; export the file as .pdf.": "dwg dxf blend fbx glb stl 3ds sketch fig",
}

#: Start of the container that pictures, sound and films share; its brand follows. The box with the brands is far
#: smaller than 65,536 bytes.
_BRAND = rb"\0\0..ftyp"

#: First bytes of files that are not read. Earlier rows are preferred.
SIGNATURES = (
    Signature("avif", _BRAND + rb"avi[fs]", "image/avif"),
    Signature("heic", _BRAND + rb"(?:hei[cxm]|hev[cx])", "image/heic"),
    Signature("heif", _BRAND + rb"(?:mif1|msf1|heif)", "image/heif"),
    Signature("cr3", _BRAND + rb"crx "),
    Signature("m4a", _BRAND + rb"M4[AB] ", "audio/mp4", is_media=True),
    Signature("mov", _BRAND + rb"qt  ", "video/quicktime", is_media=True),
    Signature("mp4", _BRAND, "video/mp4", is_media=True),
    Signature("wav", rb"RIFF....WAVE", "audio/wav", is_media=True),
    Signature("avi", rb"RIFF....AVI ", "video/x-msvideo", is_media=True),
    Signature("aiff", rb"FORM....AIF[FC]", is_media=True),
    Signature("beam", rb"FOR1....BEAM", is_media=True),
    # two or three letters alone might begin a text
    Signature("exe", rb"MZ.*\0", is_media=True),
    Signature("mp3", rb"ID3[\x02-\x04]", "audio/mpeg", is_media=True),
    Signature("pyc", rb"..\r\n[\0\x01\x03]\0\0\0", is_media=True),
    Signature("so", rb"\x7fELF", "application/x-elf", is_media=True),
    Signature("dylib", rb"\xfe\xed\xfa[\xce\xcf]|[\xce\xcf]\xfa\xed\xfe", is_media=True),
    Signature("class", rb"\xca\xfe\xba\xbe", "application/java-vm", is_media=True),
    Signature("wasm", rb"\0asm", "application/wasm", is_media=True),
    Signature("deb", rb"!<arch>\ndebian", is_media=True),
    Signature("a", rb"!<arch>\n", is_media=True),
    Signature("rpm", rb"\xed\xab\xee\xdb", is_media=True),
    Signature("ogg", rb"OggS\0", "audio/ogg", is_media=True),
    Signature("flac", rb"fLaC\0", "audio/flac", is_media=True),
    Signature("mp3", rb"\xff[\xfb\xf3]", "audio/mpeg", is_media=True),
    Signature("mid", rb"MThd\0\0\0\x06", is_media=True),
    Signature("mkv", rb"\x1aE\xdf\xa3", is_media=True),
    Signature("flv", rb"FLV\x01", is_media=True),
    Signature("wmv", rb"0&\xb2u\x8ef\xcf\x11", is_media=True),
    Signature("mpg", rb"\0\0\x01[\xba\xb3]", is_media=True),
    Signature("ttf", rb"\0\x01\0\0\0", is_media=True),
    Signature("otf", rb"OTTO\0", is_media=True),
    Signature("ttc", rb"ttcf\0", is_media=True),
    Signature("woff", rb"wOFF[\0\x01]", is_media=True),
    Signature("woff2", rb"wOF2\0", is_media=True),
    Signature("gz", rb"\x1f\x8b", "application/gzip"),
    # the first block, or the end marker of an empty file
    Signature("bz2", rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)", "application/x-bzip2"),
    Signature("xz", rb"\xfd7zXZ\0", "application/x-xz"),
    Signature("zst", rb"\x28\xb5\x2f\xfd", "application/zstd"),
    Signature("7z", rb"7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    Signature("rar", rb"Rar!\x1a\x07", "application/vnd.rar"),
    Signature("sqlite", rb"SQLite format 3\0", "application/vnd.sqlite3"),
    Signature("parquet", rb"PAR1\x15", "application/vnd.apache.parquet"),
)


def unsupported(name: str) -> str | None:
    """Return the advice for the owner of a file whose name has an unsupported type; None if the type is supported."""
    return _REFUSALS.get(split(name)[1])


@cache
def programs(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the given programs that this machine has. Cached, so a worker must restart to find new ones."""
    return tuple(name for name in names if which(name) and (name != "tesseract" or has_ocr()))


def has_ocr() -> bool:
    """Return whether the library that opens pictures for Tesseract is installed."""
    return find_spec("PIL") is not None


_REFUSALS = {extension: sentence for sentence, extensions in UNSUPPORTED.items() for extension in extensions.split()}

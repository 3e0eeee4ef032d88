"""What a file's name tells about its type: the table of formats, the languages of code, and what is not read."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from shutil import which

from worker.parse.formats import BY_EXTENSION, BY_TYPE, Format

_LANGUAGES = {
    "bash": "sh bash zsh ksh",
    "c": "c h",
    "clojure": "clj cljs cljc edn",
    "cpp": "cc cpp cxx hh hpp hxx ipp",
    "csharp": "cs csx",
    "css": "css scss sass less",
    "dart": "dart",
    "dockerfile": "dockerfile containerfile",
    "elixir": "ex exs",
    "erlang": "erl hrl",
    "fsharp": "fs fsi fsx",
    "go": "go",
    "graphql": "graphql gql",
    "groovy": "groovy gradle",
    "haskell": "hs",
    "hcl": "tf hcl tfvars",
    "html": "vue svelte",
    "ini": "ini cfg conf properties",
    "java": "java",
    "javascript": "js jsx mjs cjs",
    "julia": "jl",
    "kotlin": "kt kts",
    "lua": "lua",
    "make": "mk",
    "nix": "nix",
    "objc": "mm",
    "ocaml": "ml mli",
    "perl": "pl pm",
    "php": "php phtml",
    "powershell": "ps1 psm1 psd1",
    "protobuf": "proto",
    "python": "py pyi pyw",
    "r": "r",
    "ruby": "rb rake gemspec",
    "rust": "rs",
    "scala": "scala sbt sc",
    "solidity": "sol",
    "sql": "sql",
    "swift": "swift",
    "tsx": "tsx",
    "typescript": "ts mts cts",
    "zig": "zig",
}

#: Names without an extension; any other such name is text.
_NAMES = {
    "containerfile": "dockerfile",
    "dockerfile": "dockerfile",
    "gemfile": "ruby",
    "gnumakefile": "make",
    "jenkinsfile": "groovy",
    "makefile": "make",
    "rakefile": "ruby",
}

#: Types that hold no text, or none that is read, by what their owner can do about it.
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


def of(name: str) -> tuple[Format, str | None]:
    """Format by name, and the language where that is code; "text" for all that is not known."""
    stem, extension = _split(name)
    if not extension and stem in _NAMES:
        return BY_TYPE["code"], _NAMES[stem]
    language = _LANGUAGE_OF.get(extension)
    return (BY_TYPE["code"], language) if language else (BY_EXTENSION.get(extension, BY_TYPE["text"]), None)


def unsupported(name: str) -> str | None:
    """A sentence for the owner of a file whose name is of a type that is not read."""
    return _REFUSALS.get(_split(name)[1])


@cache
def programs(names: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the programs that this machine has; found out once, so a worker must restart to find more."""
    return tuple(name for name in names if which(name) and (name != "tesseract" or has_ocr()))


def has_ocr() -> bool:
    """Whether the libraries that hand pictures to Tesseract are installed."""
    return all(find_spec(library) for library in ("PIL", "pytesseract"))


def _split(name: str) -> tuple[str, str]:
    """What stands before and behind the last dot of the file's name, in lower case."""
    stem, _, extension = name.rsplit("/", 1)[-1].lower().rpartition(".")
    return (stem, extension) if stem else (extension, "")


_LANGUAGE_OF = {extension: language for language, extensions in _LANGUAGES.items() for extension in extensions.split()}
_REFUSALS = {extension: sentence for sentence, extensions in _UNSUPPORTED.items() for extension in extensions.split()}

"""What a file's name tells about its type: one table for what is read, one for what is not."""

from __future__ import annotations

_MARKDOWN = "md markdown mdown mkd mdx"
_JSON = "json geojson ipynb webmanifest"

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
    "html": "html htm xhtml vue svelte",
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
    "toml": "toml",
    "tsx": "tsx",
    "typescript": "ts mts cts",
    "xml": "xml xsd xsl xslt svg plist",
    "yaml": "yaml yml",
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

_UNSUPPORTED = {
    "A PDF document": "pdf",
    "A word processor document": "doc docx docm dotx odt rtf",
    "A spreadsheet": "xls xlsx xlsm xlsb ods",
    "A presentation": "ppt pptx pptm odp",
    "An e-book": "epub mobi azw azw3 djvu",
    "An e-mail store": "pst",
    "An image": "png jpg jpeg jpe gif bmp tif tiff webp avif heic heif ico icns psd ai eps xcf cr2 nef dng jxl",
    "Audio": "mp3 wav flac ogg oga opus m4a aac wma aif aiff mid midi",
    "Video": "mp4 m4v mov avi mkv webm wmv flv mpg mpeg 3gp",
    "An archive": "zip tar gz tgz bz2 tbz2 xz txz zst 7z rar jar war ear whl egg apk ipa dmg iso cab deb rpm lz4 crx",
    "An executable or compiled file": "exe dll so dylib o bin class pyc pyo pyd wasm elc beam node msi",
    "A font": "ttf otf woff woff2 eot ttc",
    "A database": "db sqlite sqlite3 mdb accdb dbf",
    "A binary data file": "parquet avro orc feather arrow npy npz pkl pickle h5 hdf5 onnx pt pth safetensors gguf rds",
    "A design or model file": "dwg dxf blend fbx glb stl 3ds sketch fig",
}


def of(name: str) -> tuple[str, str | None]:
    """Type and language by name: "markdown", "json", "code" with its language, and "text" for all else."""
    stem, extension = _split(name)
    if not extension and stem in _NAMES:
        return "code", _NAMES[stem]
    return _TYPES.get(extension, ("text", None))


def unsupported(name: str) -> str | None:
    """What a file of this name is, if it is of a type that holds no plain text."""
    return _LABELS.get(_split(name)[1])


def _split(name: str) -> tuple[str, str]:
    """What stands before and behind the last dot of the file's name, in lower case."""
    stem, _, extension = name.rsplit("/", 1)[-1].lower().rpartition(".")
    return (stem, extension) if stem else (extension, "")


def _types() -> dict[str, tuple[str, str | None]]:
    table: dict[str, tuple[str, str | None]] = {}
    for language, extensions in _LANGUAGES.items():
        table.update(dict.fromkeys(extensions.split(), ("code", language)))
    table.update(dict.fromkeys(_MARKDOWN.split(), ("markdown", None)))
    table.update(dict.fromkeys(_JSON.split(), ("json", "json")))
    return table


_TYPES = _types()
_LABELS = {extension: label for label, extensions in _UNSUPPORTED.items() for extension in extensions.split()}

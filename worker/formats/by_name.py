"""Detects a file's type and programming language by its name."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from pathlib import PurePosixPath

from schemas.content.stated import is_sidecar
from worker.formats.registry import BY_EXTENSION, BY_TYPE, FORMATS, Format

#: Extensions of each language of code.
LANGUAGES = {
    "bash": "sh bash zsh ksh",
    "c": "c h",
    "clojure": "clj cljs cljc edn",
    "cpp": "cc cpp cxx hh hpp hxx ipp inl tpp ino cu cuh",
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
    "html": "vue svelte astro",
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

#: Stems of files that stand for their folder.
_FOLDER_STEMS = frozenset({"index", "mod", "__init__", "lib"})
#: Maximum characters of a name that is embedded with code.
MAX_EMBEDDED_STEM = 100

#: Names without an extension. Any other such name is text.
NAMES = {
    "containerfile": "dockerfile",
    "dockerfile": "dockerfile",
    "gemfile": "ruby",
    "gnumakefile": "make",
    "jenkinsfile": "groovy",
    "makefile": "make",
    "rakefile": "ruby",
}


def of(name: str) -> tuple[Format, str | None]:
    """Return the format by name, and the language if it is code; "text" for unknown names."""
    stem, extension = split(name)
    if not extension and stem in NAMES:
        return BY_TYPE["code"], NAMES[stem]
    language = _LANGUAGE_OF.get(extension)
    return (BY_TYPE["code"], language) if language else (BY_EXTENSION.get(extension, BY_TYPE["text"]), None)


def has_type(types: AbstractSet[str], path: str, stated: str | None) -> bool:
    """Return whether `config.types` accepts a file, by its extension or by its type.

    The type is the one that the source `stated`, else the one that the name suggests. Without types every file is
    accepted.
    """
    return not types or not types.isdisjoint(type_names(path, stated))


def type_names(path: str, stated: str | None) -> set[str]:
    """Return the names by which `config.types` accepts a file: its extension, and its type as in `has_type`."""
    return {split(path)[1], stated or of(path)[0].type}


def plain_type(name: str) -> str:
    """Return an entry of `config.types` in the form that is compared."""
    return name.lower().removeprefix(".")


def stated_type(name: str) -> str:
    """Return the type of a node with a known name only; "file" if the name decides when the file is read."""
    return _STATED.get(split(name)[1], "file")


def with_stated_type(path: str, type_: str | None) -> str:
    """Return the name that selects the parser: the file's own, or with the extension of the source's stated type."""
    name = path.rsplit("/", 1)[-1]
    if type_ is None:
        return name
    stated = STATED_EXTENSIONS.get(type_, "").split()
    extension = f".{stated[0]}" if stated else ""
    return name if name.lower().endswith(extension) else name + extension


def split(name: str) -> tuple[str, str]:
    """Return the parts of the file's name before and after the last dot, in lower case."""
    stem, _, extension = name.rsplit("/", 1)[-1].lower().rpartition(".")
    return (stem, extension) if stem else (extension, "")


def embedded_stem(path: str, type_: str, *, file_stems: bool) -> str:
    """Return the name that an index embeds with a file of this type. Only code has one, and only with `file_stems`."""
    return file_stem(path) if file_stems and type_ == "code" else ""


def file_stem(path: str) -> str:
    """Return the name of a file of code: its stem, or the name of its folder if the stem says nothing.

    It is empty if the stem says nothing and the file lies in no folder, and if the name has no letter.
    """
    *folders, name = PurePosixPath(path).parts or ("",)
    stem = PurePosixPath(name).stem
    if stem.lower() in _FOLDER_STEMS:
        stem = folders[-1] if folders else ""
    name = " ".join(stem.split())[:MAX_EMBEDDED_STEM]
    return name if any(map(str.isalpha, name)) else ""


def changes_chunks(before: str, now: str, *, file_stems: bool, sidecars: bool) -> bool:
    """Return whether a file's new name implies other chunks than its indexed name.

    It does if it implies another format or language, or another text in front of embedded code, or if one of them is
    a sidecar's.
    """
    if sidecars and is_sidecar(before) != is_sidecar(now):
        return True
    form = of(now)
    old, new = (embedded_stem(path, form[0].type, file_stems=file_stems) for path in (before, now))
    return of(before) != form or old != new


_LANGUAGE_OF = {extension: language for language, extensions in LANGUAGES.items() for extension in extensions.split()}
#: Extensions of the types that a source may state itself.
STATED_EXTENSIONS = {format_.type: format_.stated for format_ in FORMATS if format_.stated}
_STATED = {extension: type_ for type_, extensions in STATED_EXTENSIONS.items() for extension in extensions.split()}

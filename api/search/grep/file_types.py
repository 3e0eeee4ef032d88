"""File types as in ripgrep's `-t`, and those of the index, recognized by file name."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain

from schemas.errors import Invalid
from worker.formats.by_name import LANGUAGES, NAMES, STATED_EXTENSIONS
from worker.formats.registry import FORMATS

_SHELL = "bash bashrc csh cshrc ksh kshrc sh tcsh zsh"
_SHELL_FILES = "bash_login bash_logout bash_profile bashrc profile zlogin zlogout zprofile zshenv zshrc"

#: Lower-case extensions of each type, and whole names after a slash. Covers ripgrep's types of common text files.
_TYPES = {
    "asciidoc": "adoc asc asciidoc",
    "asm": "s asm",
    "awk": "awk",
    "bat": "bat",
    "bazel": "bazel bazelrc build bzl /build /module.bazel /workspace /workspace.bazel",
    "c": "c h cats",
    "clojure": "clj cljc cljs cljx",
    "cmd": "bat cmd",
    "cmake": "cmake /cmakelists.txt",
    "coffeescript": "coffee",
    "config": "cfg conf config ini",
    "cpp": "cc cpp cxx h hh hpp hxx inl",
    "csharp": "cs",
    "css": "css scss",
    "csv": "csv",
    "cuda": "cu cuh",
    "cython": "pxd pxi pyx",
    "d": "d",
    "dart": "dart",
    "diff": "diff patch",
    "edn": "edn",
    "elixir": "eex ex exs heex leex livemd",
    "elm": "elm",
    "erlang": "erl hrl",
    "fish": "fish",
    "fortran": "f f77 f90 f95 pfo",
    "fsharp": "fs fsi fsx",
    "go": "go",
    "gradle": "gradle /gradle.properties /gradlew /gradlew.bat",
    "graphql": "graphql graphqls",
    "groovy": "gradle groovy",
    "h": "h hh hpp",
    "haskell": "c2hs cpphs hs hsc lhs",
    "hs": "hs lhs",
    "html": "ejs htm html",
    "java": "java jsp jspx properties",
    "jinja": "j2 jinja jinja2",
    "js": "cjs js jsx mjs vue",
    "json": "json sarif /composer.lock",
    "jsonl": "jsonl",
    "julia": "jl",
    "jupyter": "ipynb jpynb",
    "kotlin": "kt kts",
    "less": "less",
    "lisp": "el jl lisp lsp sc scm",
    "lock": "lock /package-lock.json",
    "log": "log",
    "lua": "lua",
    "make": "mak mk /makefile /makefile.am /makefile.in /gnumakefile /gnumakefile.am /gnumakefile.in",
    "markdown": "markdown md mdown mdwn mdx mkd mkdn",
    "matlab": "m",
    "nim": "nim nimble nimf nims",
    "nix": "nix",
    "objc": "h m",
    "objcpp": "h mm",
    "ocaml": "ml mli mll mly",
    "org": "org org_archive",
    "pascal": "dpr inc lpr pas pp",
    "pdf": "pdf",
    "perl": "perl pl plh plx pm t",
    "php": "php php3 php4 php5 php7 php8 pht phtml",
    "po": "po",
    "protobuf": "proto",
    "ps": "cdxml ps1 ps1xml psd1 psm1",
    "puppet": "epp erb pp rb",
    "py": "py pyi",
    "r": "r rmd rnw",
    "rst": "rst",
    "ruby": "gemspec rb rbw /.irbrc /gemfile /rakefile /config.ru",
    "rust": "rs",
    "sass": "sass scss",
    "scala": "sbt scala",
    "sh": " ".join(
        (_SHELL, *(f"/{n} /.{n}" for n in _SHELL_FILES.split()), "/.cshrc /.kshrc /.login /.logout /.tcshrc")
    ),
    "solidity": "sol",
    "sql": "psql sql",
    "stylus": "styl",
    "svelte": "svelte",
    "svg": "svg",
    "sv": "h sv svh v vg",
    "swift": "swift",
    "tcl": "tcl",
    "tex": "bib cls dtx ins ltx sty tex",
    "tf": "terraformrc tf tfrc /terraform.rc /terraform.tfvars /terraform.tfvars.json",
    "thrift": "thrift",
    "toml": "toml /cargo.lock",
    "ts": "cts mts ts tsx",
    "txt": "txt",
    "v": "v vsh",
    "verilog": "sv svh v vh",
    "vhdl": "vhd vhdl",
    "vim": "vim /.gvimrc /.vimrc /_gvimrc /_vimrc /gvimrc /vimrc",
    "vue": "vue",
    "xml": "dtd rng sch xhtml xjb xml xsd xsl xslt",
    "yaml": "yaml yml",
    "zig": "zig",
    "zsh": "zsh /zlogin /zlogout /zprofile /zshenv /zshrc /.zlogin /.zlogout /.zprofile /.zshenv /.zshrc",
}
#: Aliases of types; the last ones are the index's names. Its other types have the extensions that it knows.
_ALIASES = {
    "cs": "csharp",
    "jl": "julia",
    "md": "markdown",
    "python": "py",
    "typescript": "ts",
    "bash": "sh",
    "javascript": "js",
    "notebook": "jupyter",
    "powershell": "ps",
    "text": "txt",
}


class FileTypeFilter:
    """A filter for files of some types. Raises `Invalid` for an unknown name."""

    def __init__(self, names: Sequence[str]) -> None:
        types = [name.lower().removeprefix(".") for name in names]
        unknown = [name for name, type_ in zip(names, types, strict=True) if type_ not in _kinds()]
        if unknown:
            known_types = ", ".join(sorted({*_TYPES, *_ALIASES, *_index_types()}))
            raise Invalid(
                f"`types` has unknown types: {', '.join(map(repr, unknown))[:200]}. Send a file extension, or one of "
                f"{known_types}. To select other files by name, use `glob`."
            )
        self._of = frozenset(part for name in types for part in _kinds()[name])

    def has(self, path: str, word: str | None) -> bool:
        """Whether a file is of these types, by its name or by the type `word` that its source gives."""
        name = path.rsplit("/", 1)[-1].lower()
        _, dot, extension = name.rpartition(".")
        return not self._of.isdisjoint(
            {f"/{name}", extension if dot else "", *STATED_EXTENSIONS.get(word or "", "").split()}
        )


@cache
def _kinds() -> dict[str, list[str]]:
    """The extensions and file names for each type name. A type overrides an extension of the same name."""
    ripgrep = {name: parts.split() for name, parts in _TYPES.items()}
    ripgrep |= {alias: ripgrep[name] for alias, name in _ALIASES.items()}
    kinds = _index_types() | ripgrep
    parts = {*chain(*kinds.values(), *_index_types().values())}
    return {part: [part] for part in parts if not part.startswith("/")} | kinds


@cache
def _index_types() -> dict[str, list[str]]:
    """The extensions and file names for each value of `file_type` and `language`."""
    types = {format_.type: format_.extensions.split() for format_ in FORMATS if format_.extensions}
    names = {language: [f"/{name}" for name in NAMES if NAMES[name] == language] for language in LANGUAGES}
    return types | {language: [*LANGUAGES[language].split(), *names[language]] for language in LANGUAGES}

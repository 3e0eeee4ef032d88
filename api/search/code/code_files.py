"""The code of an index, as those read it who look for what names in it mean."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from functools import cached_property
from typing import Any
from uuid import UUID

from api.search.code.answers import MAX_STEPS, Answers, remembered
from api.search.code.code_of_file import CodeOfFile
from api.search.code.imports import Imported, module_paths, package_above
from api.search.code.scripts import DEFAULT, SCRIPTS, script_paths
from api.search.code.surroundings import functions_around
from api.search.text.file_text import first_line_of, joined
from worker.state.pool import Pool
from worker.state.search import code_texts
from worker.state.search.code_texts import Defined, Only

#: Bytes of code that one request reads, and definitions of one name.
MAX_BYTES = 8_000_000
MAX_NAMED = 100
#: Files that are looked through for other names of definitions, at a time.
MAX_IMPORTING = 200
_GO_MODULE = re.compile(r"^module[ \t]+(\S+)", re.MULTILINE)


class CodeFiles:
    """Reads the code of one index, as if it had `only` these files, and remembers what it read."""

    def __init__(self, pool: Pool, index_id: UUID, only: Only = None) -> None:
        self._pool, self._index, self._only = pool, index_id, only
        self._files: dict[UUID, CodeOfFile | None] = {}
        self._paths: dict[str, UUID | None] = {}
        self._named: dict[str, tuple[Defined, ...]] = {}
        self._outlines: dict[UUID, Sequence[Defined]] = {}
        self._path_of: dict[UUID, str] = {}
        self._left = MAX_BYTES
        self.remembered: dict[Hashable, Any] = {}
        self.exports = Answers()

    def read(self, ids: Iterable[UUID]) -> None:
        """Read files ahead, with one query for all."""
        missing = [id_ for id_ in dict.fromkeys(ids) if id_ not in self._files]
        if not missing:
            return
        self._files |= dict.fromkeys(missing)
        texts = code_texts.read_texts(self._pool, missing, self._left) if self._left > 0 else {}
        outlines = code_texts.outlines(self._pool, missing)
        self._outlines |= {id_: outlines.get(id_, ()) for id_ in missing}
        bases = code_texts.bases(self._pool, texts)
        for file in code_texts.read_files(self._pool, missing):
            self._path_of[file.id] = file.path
            rows = texts.get(file.id)
            if not rows:
                continue
            text = joined(rows)
            self._left -= len(text)
            outline = self._outlines[file.id]
            self._files[file.id] = CodeOfFile(file, text, first_line_of(rows), outline, bases.get(file.id, {}))
            self._paths[file.path] = file.id

    def file(self, file_id: UUID) -> CodeOfFile | None:
        """A file; None if too much was read already."""
        self.read([file_id])
        return self._files[file_id]

    def outline(self, file_id: UUID) -> Sequence[Defined]:
        """The definitions of a file, also if its text was not read."""
        self.read([file_id])
        return self._outlines[file_id]

    def path(self, file_id: UUID) -> str | None:
        """The path of a file; None if it was removed meanwhile."""
        self.read([file_id])
        return self._path_of.get(file_id)

    def importing(self, names: Sequence[str], modules: Sequence[str]) -> tuple[list[CodeOfFile], bool]:
        """Files that import one of these modules, or one of these names under another, and whether there are more."""
        files = code_texts.importing(self._pool, self._index, names, modules, MAX_IMPORTING + 1, only=self._only)
        self.read(files[:MAX_IMPORTING])
        codes = [code for id_ in files[:MAX_IMPORTING] if (code := self._files[id_]) is not None]
        return codes, len(codes) < len(files)

    def want(self, nodes: Iterable[Defined]) -> None:
        """Let names mean these definitions too, though more have the name than are read."""
        for node in nodes:
            known = self.named(node.name)
            if node not in known:
                self._named[node.name] = (*known, node)

    def named(self, name: str) -> tuple[Defined, ...]:
        """The definitions of a name in all files that count."""
        if name not in self._named:
            found = code_texts.named(self._pool, self._index, name, MAX_NAMED, only=self._only)
            self._named[name] = tuple(found)
        return self._named[name]

    def go_module(self) -> str | None:
        """The module name of the folder in `go.mod`; None if there is none."""
        self._look_up(["go.mod"])
        file_id = self._paths["go.mod"]
        code = self.file(file_id) if file_id else None
        found = _GO_MODULE.search(code.text) if code else None
        return found[1] if found else None

    def files_at(self, paths: Sequence[str]) -> list[CodeOfFile]:
        """The files at some of these paths, in this order."""
        self._look_up(paths)
        ids = [id_ for path in paths if (id_ := self._paths[path]) is not None]
        self.read(ids)
        return [code for id_ in ids if (code := self._files[id_]) is not None]

    @cached_property
    def root_name(self) -> str:
        """The name of the folder; "" if it has none."""
        return code_texts.root_name(self._pool, self._index)

    @remembered
    def module(self, code: CodeOfFile, module: str) -> CodeOfFile | None:
        """The file of a module, as another file imports it; None if the folder has none."""
        is_script = code.file.language in SCRIPTS
        path = code.file.path
        paths = script_paths(module, path) if is_script else module_paths(module, path, self.root_name)
        packages = {path: package for path in paths if (package := package_above(path, module, code.file.language))}
        self._look_up([*paths, *packages.values()])
        for path in paths:
            file_id = self._paths[path]
            if path in packages and self._paths[packages[path]] is not None:
                continue
            if file_id is not None and path != code.file.path:
                return self.file(file_id)
        return None

    def modules_called(self, code: CodeOfFile, receiver: str, within: Defined | None) -> list[CodeOfFile | None]:
        """The modules that a receiver may be, by branches: `a`, or `a.b` if `a` is imported."""
        head, _, rest = receiver.partition(".")
        inner = code.inner_import(head, functions_around(code, within))
        choices = [inner] if inner else code.imports.choices(head)
        return [self._module_called(code, each, rest) for each in choices] if "(" not in receiver else []

    def _module_called(
        self, code: CodeOfFile, imported: Imported, rest: str, steps: int = MAX_STEPS
    ) -> CodeOfFile | None:
        dotted = ".".join(filter(None, (imported.module.rstrip("."), imported.name, rest)))
        dotted = "." * (len(imported.module) - len(imported.module.lstrip("."))) + dotted.lstrip(".")
        is_script = code.file.language in SCRIPTS
        if is_script and (rest or imported.name in {None, DEFAULT}):
            return None if rest else self.module(code, imported.module)
        found = None if is_script else self.module(code, dotted)
        home = self.module(code, imported.module) if found is None and imported.name and steps else None
        passed = home.imports.named.get(imported.name or "") if home else None
        return self._module_called(home, passed, rest, steps - 1) if home and passed else found

    def _look_up(self, paths: Iterable[str]) -> None:
        unknown = [path for path in paths if path not in self._paths]
        if unknown:
            self._paths |= dict.fromkeys(unknown)
            self._paths |= code_texts.at_paths(self._pool, self._index, unknown, only=self._only)

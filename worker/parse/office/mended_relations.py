"""Repairs the relations between the parts of Office Open XML packages, and the table of their types."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape, unescape

from worker.formats.registry import Format

Contents = dict[str, bytes]

_OFFICE_TYPES = "application/vnd.openxmlformats-officedocument"
_PACKAGE_TYPES = "application/vnd.openxmlformats-package"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_CONTENT_TYPES = "http://schemas.openxmlformats.org/package/2006/content-types"
_OFFICE_RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_TYPES, _ROOT = "[Content_Types].xml", "_rels/.rels"

_RELATION = re.compile(r"<(?:\w+:)?Relationship\s([^<>]*)>")
_ATTRIBUTE = re.compile(r"([\w:]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_TARGET = re.compile(r"\sTarget=[\"']([^\"']*)")
_OVERRIDE = re.compile(r"<(?:\w+:)?Override\s([^<>]*)>")
#: References of the main part to sheets and slides, in their order.
_END_OF_LIST = re.compile(r"</(?:\w+:)?(?:sheets|sldIdLst)>")
_REFERENCE = re.compile(r"<(?:\w+:)?(?:sldId|sheet)\b([^<>]*)>")
#: References of a text to its charts and diagrams, in their order.
_DRAWN = re.compile(r"<(?:\w+:)?(?:(?P<chart>chart)|relIds)\s[^<>]*?\w+:(?:id|dm)\s*=\s*[\"']([^\"']{1,100})[\"']")
#: Parts that have relations in most documents.
_WITH_RELATIONS = re.compile(r"ppt/slides/slide\d+\.xml|xl/(?:worksheets/sheet|drawings/drawing)\d+\.xml")
_NUMBER = re.compile(r"\d+")
#: Extensions of files that are not XML, and their types.
_DEFAULTS = {
    "rels": f"{_PACKAGE_TYPES}.relationships+xml",
    "xml": "application/xml",
    **{ending: f"image/{ending}" for ending in ("png", "gif", "bmp", "tiff", "jpeg")},
    "jpg": "image/jpeg",
    "emf": "image/x-emf",
    "wmf": "image/x-wmf",
    "vml": f"{_OFFICE_TYPES}.vmlDrawing",
    "bin": "application/octet-stream",
}


@dataclass(frozen=True, slots=True)
class _Family:
    """The common structure of a program's packages: the types of parts, the main part, and names of its parts.

    `parts` maps the beginning of a part's name to its kind. `numbered` is the kind of parts that the main part refers
    to in their order. `empty` is a main part without any, with a place for references.
    """

    types: str
    main: str
    main_type: str
    parts: dict[str, str]
    numbered: str
    empty: str
    reference: str


_NAMES = f'xmlns:r="{_OFFICE_RELATIONS}"'
_SLIDE_NAMES = f'xmlns:p="http://schemas.openxmlformats.org/presentationml/2006/main" {_NAMES}'
_SHEET_NAMES = f'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main" {_NAMES}'
_WORD = _Family(
    "wordprocessingml",
    "word/document.xml",
    f"{_OFFICE_TYPES}.wordprocessingml.document.main+xml",
    {
        **{f"word/{kind}": kind for kind in ("styles", "numbering", "settings", "footnotes", "endnotes", "comments")},
        **{f"word/{kind}": kind for kind in ("header", "footer", "fontTable")},
        "word/charts/chart": "chart",
        "word/diagrams/data": "diagramData",
    },
    "",
    '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body/></w:document>',
    "",
)
_SLIDES = _Family(
    "presentationml",
    "ppt/presentation.xml",
    f"{_OFFICE_TYPES}.presentationml.presentation.main+xml",
    {
        "ppt/slides/slide": "slide",
        "ppt/slideMasters/slideMaster": "slideMaster",
        "ppt/commentAuthors": "commentAuthors",
    },
    "slide",
    f"<p:presentation {_SLIDE_NAMES}><p:sldIdLst>{{}}</p:sldIdLst></p:presentation>",
    f'<p:sldId {_SLIDE_NAMES} id="{{number}}" r:id="{{id}}"/>',
)
_SHEETS = _Family(
    "spreadsheetml",
    "xl/workbook.xml",
    f"{_OFFICE_TYPES}.spreadsheetml.sheet.main+xml",
    {"xl/worksheets/sheet": "worksheet", "xl/sharedStrings": "sharedStrings", "xl/styles": "styles"},
    "worksheet",
    f"<workbook {_SHEET_NAMES}><sheets>{{}}</sheets></workbook>",
    f'<sheet {_SHEET_NAMES} name="{{name}}" sheetId="{{number}}" r:id="{{id}}"/>',
)
#: By the type of documents.
FAMILIES = {"docx": _WORD, "pptx": _SLIDES, "xlsx": _SHEETS}
#: Kinds of parts whose types are not named after them.
_TYPE_OF_KIND = {
    "theme": f"{_OFFICE_TYPES}.theme+xml",
    "chart": f"{_OFFICE_TYPES}.drawingml.chart+xml",
    "diagramData": f"{_OFFICE_TYPES}.drawingml.diagramData+xml",
    "core-properties": f"{_PACKAGE_TYPES}.core-properties+xml",
    "extended-properties": f"{_OFFICE_TYPES}.extended-properties+xml",
    "custom-properties": f"{_OFFICE_TYPES}.custom-properties+xml",
}
#: Kinds of parts whose types are named after them in each family.
_NAMED = {
    "wordprocessingml": "styles numbering settings fontTable webSettings footnotes endnotes comments header footer",
    "presentationml": (
        "slide slideLayout slideMaster notesSlide notesMaster handoutMaster presProps viewProps tableStyles comments "
        "commentAuthors tags"
    ),
    "spreadsheetml": "worksheet chartsheet dialogsheet styles sharedStrings comments table externalLink",
}
_EXTERNAL = ' TargetMode="External"'


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of a part, as in its file of relations."""

    id: str
    type: str
    target: str
    is_external: bool

    @property
    def kind(self) -> str:
        """The last word of the type."""
        return self.type.rpartition("/")[2]


def relations(content: bytes) -> Iterator[Relation]:
    """Yield the relations in a file, however damaged it is."""
    for found in _RELATION.finditer(content.decode("utf-8", "replace")):
        stated = _attributes(found[1])
        is_external = stated.get("TargetMode") == "External"
        yield Relation(stated.get("Id", ""), stated.get("Type", ""), stated.get("Target", ""), is_external)


def target_of(relations_path: str, target: str) -> str:
    """Return the part that a relation refers to; "" if it refers to no part."""
    path, _, _ = target.partition("#")
    folder = posixpath.dirname(posixpath.dirname(relations_path))
    return posixpath.normpath(posixpath.join("/", folder, path.replace("\\", "/"))).lstrip("/") if path else ""


def missing(contents: Container[str], files: Iterable[tuple[str, bytes]]) -> Iterator[str]:
    """Yield the missing targets of relations, by path if they have one."""
    for path, content in files:
        if _are_all_there(contents, path, content):
            continue
        for relation in relations(content):
            target = target_of(path, relation.target)
            if not relation.is_external and target not in contents:
                yield target or relation.target or relation.id


def _are_all_there(names: Container[str], path: str, content: bytes) -> bool:
    """Return whether all targets are parts, as nearly always. Parsing whole relations takes ten times as long."""
    folder = posixpath.dirname(posixpath.dirname(path))
    here, above = f"{folder}/" if folder else "", f"{posixpath.dirname(folder)}/" if "/" in folder else ""
    for target in _TARGET.findall(content.decode("utf-8", "replace")):
        name = target[1:] if target[:1] == "/" else above + target[3:] if target[:3] == "../" else here + target
        if name not in names:
            return False
    return True


def reached(files: dict[str, bytes], names: Container[str]) -> set[str]:
    """Return the parts reachable by relations from the package. `files` are the files of relations, by path."""
    found, pending = set[str](), [""]
    while pending:
        part = pending.pop()
        path = relations_path(part)
        for relation in relations(files.get(path, b"")):
            target = "" if relation.is_external else target_of(path, relation.target)
            if target and target in names and target not in found:
                found.add(target)
                pending.append(target)
    return found


def relations_path(part: str) -> str:
    """Return the path of a part's file of relations; for "", the package's."""
    folder, _, name = part.rpartition("/")
    return f"{folder}/_rels/{name}.rels".lstrip("/")


def unrelated(files: dict[str, bytes], names: Collection[str]) -> list[str]:
    """Return the parts without relations that may have lost them: slides, sheets and drawings."""
    return [name for name in names if _WITH_RELATIONS.fullmatch(name) and relations_path(name) not in files]


def check(files: dict[str, bytes], names: Collection[str]) -> None:
    """Raise `ValueError` if the package has no relation to its main part, or the main part none to another part."""
    main = next(_main_of(files.get(_ROOT, b""), names), None)
    if main is None:
        raise ValueError("no relation leads to the main part")
    folder = f"{posixpath.dirname(main)}/"
    if relations_path(main) not in files and any(name.startswith(folder) and name != main for name in names):
        raise ValueError("the relations of the main part are missing")


def mend(contents: Contents, format_: Format) -> list[str]:
    """Repair the relations and the types of a package. Returns the missing parts."""
    family = FAMILIES.get(format_.type)
    lost = [name for name in (_TYPES, _ROOT) if name not in contents]
    by_lower = {name.lower(): name for name in contents}
    if family is not None:
        lost += _complete(contents, family)
    types = _stated_types(contents.get(_TYPES, b""), by_lower)
    for path in [name for name in contents if name.endswith(".rels")]:
        kept = list[Relation]()
        for relation in relations(contents[path]):
            target = target_of(path, relation.target)
            name = by_lower.get(target.lower(), "")
            if relation.is_external:
                kept.append(relation)
            elif name in contents:
                kept.append(Relation(relation.id, relation.type, f"/{name}", is_external=False))
                if family and (type_ := _type_of(relation.kind, family)):
                    types[name] = type_
            else:
                lost.append(target or relation.target or relation.id)
        contents[path] = _relations_file(kept)
    contents[_TYPES] = _types_file(types)
    if family is not None:
        _drop_references(contents, family)
    return lost


def _drop_references(contents: Contents, family: _Family) -> None:
    """Remove the references of the main part to slides and sheets that are missing."""
    main = next(_main_of(contents.get(_ROOT, b""), contents), "")
    known = {relation.id for relation in relations(contents.get(relations_path(main), b""))}

    def kept(found: re.Match[str]) -> str:
        return found[0] if _id_of(found) in known else ""

    if family.numbered:
        text = contents.get(main, b"").decode("utf-8", "replace")
        contents[main] = _REFERENCE.sub(kept, text).encode()


def _complete(contents: Contents, family: _Family) -> list[str]:
    """Add the main part and the relations to and from it if they are missing. Returns the missing parts."""
    lost = list[str]()
    main = next(_main_of(contents.get(_ROOT, b""), contents), family.main)
    parts = _parts(contents, family)
    if main not in contents:
        main = family.main
        lost.append(main)
        contents.pop(relations_path(main), None)
        contents[main] = _empty_main(family, parts)
    if not any(relation.kind == "officeDocument" for relation in relations(contents.get(_ROOT, b""))) or lost:
        root = Relation("foldex", f"{_OFFICE_RELATIONS}/officeDocument", f"/{main}", is_external=False)
        others = [each for each in relations(contents.get(_ROOT, b"")) if each.kind != "officeDocument"]
        contents[_ROOT] = _relations_file([root, *others])
    own_path = relations_path(main)
    if not any(relations(contents.get(own_path, b""))):
        contents[own_path] = _relations_file(_relations_of_main(contents[main], family, parts))
        if parts and not lost:
            lost.append(own_path)
    if family.numbered:
        stated, contents[main] = contents[main], _with_references(contents[main], family, relations(contents[own_path]))
        if stated != contents[main] and not _END_OF_LIST.search(stated.decode("utf-8", "replace")):
            lost.append(main)
    return lost


def _with_references(main: bytes, family: _Family, stated: Iterable[Relation]) -> bytes:
    """Return the main part with references to all slides or sheets that it has relations to."""
    text = main.decode("utf-8", "replace")
    known = set(_ids(text))
    parts = [(each.id, each.target) for each in stated if each.kind == family.numbered and each.id not in known]
    more = _references(family, parts, first=10_000)
    end = _END_OF_LIST.search(text)
    if not more:
        return main
    if end:
        return f"{text[: end.start()]}{more}{text[end.start() :]}".encode()
    return family.empty.format(more).encode()


def _ids(main: str) -> Iterator[str]:
    for found in _REFERENCE.finditer(main):
        yield _id_of(found) or ""


def _id_of(reference: re.Match[str]) -> str | None:
    """Return the id of the relation that a reference names; None if it names none."""
    return next((value for name, value in _attributes(reference[1]).items() if name.endswith(":id")), None)


def _references(family: _Family, parts: Iterable[tuple[str, str]], first: int) -> str:
    """References of the main part to parts, of which each has the id of its relation and its name."""
    return "".join(
        family.reference.format(number=first + number, id=escape(id_), name=escape(posixpath.basename(name)[:-4]))
        for number, (id_, name) in enumerate(parts)
    )


def _main_of(root: bytes, names: Container[str]) -> Iterator[str]:
    for relation in relations(root):
        target = target_of(_ROOT, relation.target)
        if relation.kind == "officeDocument" and target in names:
            yield target


def _parts(contents: Contents, family: _Family) -> list[tuple[str, str]]:
    """Name and kind of the parts that the main part of a family has relations to, in the order of their numbers."""
    found = [
        (name, kind)
        for name in contents
        for start, kind in family.parts.items()
        if name.startswith(start) and name.endswith(".xml") and not name[len(start) : -4].strip("0123456789")
    ]
    return sorted(found, key=lambda part: (part[1], [int(number) for number in _NUMBER.findall(part[0])]))


def _relations_of_main(main: bytes, family: _Family, parts: Sequence[tuple[str, str]]) -> Iterator[Relation]:
    """Relations to all parts, with the ids that the main part has for those of its list, and for what it draws."""
    text = main.decode("utf-8", "replace")
    drawn = [("chart" if found["chart"] else "diagramData", found[2]) for found in _DRAWN.finditer(text)]
    ids = {kind: iter(dict.fromkeys(id_ for of, id_ in drawn if of == kind)) for kind in ("chart", "diagramData")}
    ids[family.numbered] = _ids(text)
    for number, (name, kind) in enumerate(parts):
        id_ = next(ids.get(kind, iter(())), "")
        yield Relation(id_ or f"foldex{number}", f"{_OFFICE_RELATIONS}/{kind}", f"/{name}", is_external=False)


def _empty_main(family: _Family, parts: Sequence[tuple[str, str]]) -> bytes:
    named = [(f"foldex{number}", name) for number, (name, kind) in enumerate(parts) if kind == family.numbered]
    return family.empty.format(_references(family, named, first=256)).encode()


def _type_of(kind: str, family: _Family) -> str | None:
    if kind == "officeDocument":
        return family.main_type
    if kind in _NAMED[family.types].split():
        return f"{_OFFICE_TYPES}.{family.types}.{kind}+xml"
    return _TYPE_OF_KIND.get(kind)


def _stated_types(content: bytes, by_lower: dict[str, str]) -> dict[str, str]:
    stated = (_attributes(found[1]) for found in _OVERRIDE.finditer(content.decode("utf-8", "replace")))
    types = {
        by_lower.get(each.get("PartName", "").lstrip("/").lower(), ""): each.get("ContentType", "") for each in stated
    }
    return {name: type_ for name, type_ in types.items() if name and type_}


def _attributes(tag: str) -> dict[str, str]:
    return {found[1]: unescape(found[2] or found[3] or "") for found in _ATTRIBUTE.finditer(tag)}


def _relations_file(kept: Iterable[Relation]) -> bytes:
    rows = (
        f'<Relationship Id="{escape(each.id)}" Type="{escape(each.type)}" Target="{escape(each.target)}"'
        f"{_EXTERNAL if each.is_external else ''}/>"
        for each in kept
    )
    return f'<Relationships xmlns="{_RELATIONS}">{"".join(rows)}</Relationships>'.encode(errors="replace")


def _types_file(types: dict[str, str]) -> bytes:
    defaults = (f'<Default Extension="{ending}" ContentType="{type_}"/>' for ending, type_ in _DEFAULTS.items())
    overrides = (
        f'<Override PartName="/{escape(name)}" ContentType="{escape(type_)}"/>' for name, type_ in types.items()
    )
    return f'<Types xmlns="{_CONTENT_TYPES}">{"".join([*defaults, *overrides])}</Types>'.encode(errors="replace")

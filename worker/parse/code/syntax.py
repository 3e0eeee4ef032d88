"""Extracts definitions, and the names used in them, from the syntax trees (tree-sitter) of code.

Runs in the helper process: on made-up code the library may crash, or take gigabytes and minutes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import TYPE_CHECKING, TypedDict, get_args

import numpy as np

from schemas.content.document import Kind, UseKind
from worker.machine.memory.gc_pause import without_garbage_collection
from worker.parse.code import conditions, error_recovery
from worker.parse.code.columns import Columns, in_characters, reference_columns
from worker.parse.code.definition_names import NameFields, body_of, comments_of, name_of
from worker.parse.code.grammar import Grammar, grammar
from worker.tokens.byte_tables import Offsets

if TYPE_CHECKING:
    from tree_sitter import Node, Query, Tree

#: Maximum names around a definition. Deeper names belong to the innermost of these.
_MAX_DEPTH = 32

#: Maximum characters in a name. Longer names were written by a program.
_MAX_NAME_CHARS = 200

_MAX_SIGNATURE_CHARS = 300
#: Maximum bytes of a text that are read for a signature.
_MAX_HEAD_BYTES = 4 * _MAX_SIGNATURE_CHARS

#: Maximum references of one file; any further ones are left out.
_MAX_REFERENCES = 50_000

#: Languages whose macros look like errors to a parser: missing nodes that a macro alone causes, and the maximum number
#: of errors that one stray sign still explains. C++ is excluded, as a stray brace in a class looks the same.
_MACROS = {"c": (frozenset({";", "#endif", "identifier", "type_identifier"}), 16)}
#: Languages with C's preprocessor.
_WITH_CONDITIONS = frozenset({"c", "cpp"})
_NO_MACROS: tuple[frozenset[str], float] = (frozenset(), math.inf)

#: Maximum share of a text that may be errors outside sound definitions.
_MAX_ERROR_SHARE = 0.7

#: Depth of the tree below which nothing is searched. tree-sitter's queries cannot handle depths beyond 32,767.
_MAX_TREE_DEPTH = 1000

#: Bytes of an error below which it affects only what contains it.
_SMALL_ERROR_BYTES = 200

_NO_NAMES: frozenset[str] = frozenset()


_LINE_BREAK = ord("\n")

#: Maximum children of one error: a query's time is quadratic in them.
_MAX_ERROR_CHILDREN = 3000

#: Captures that are definitions. Of two over the same text the first one counts.
_DEFINITION_KINDS: tuple[str, ...] = get_args(Kind)

#: Captures (`use.…`) that are references. Of two over the same name the first counts, as it is more specific.
_USE_KINDS: tuple[str, ...] = get_args(UseKind)

#: A function directly inside one of these is a method.
_WITH_METHODS = frozenset({"class", "interface", "struct", "enum", "trait", "impl"})

#: C has `typedef struct a { … } a`, which defines only one type.
_TYPES = frozenset({"class", "interface", "struct", "enum", "type"})

#: Built-in types, for languages whose syntax does not distinguish them.
_BUILTIN = {
    "go": "any bool byte complex64 complex128 error float32 float64 int int8 int16 int32 int64 rune string "
    "uint uint8 uint16 uint32 uint64 uintptr",
    "php": "self static",
    "python": "bool bytes dict float frozenset int list None object set str tuple type",
    "rust": "Self",
}

Captures = dict[str, "list[Node]"]
Span = tuple[int, int]
_range: Callable[[Node], Span] = attrgetter("byte_range")
_Analysis = tuple["list[_FoundDefinition]", set[int], Captures]


@dataclass(slots=True)
class _FoundDefinition:
    """A definition in byte offsets. Its signature starts at `head`, after decorators, and is without `comments`.

    `stated_scope` are the types that its own name states (`Foo::bar`). `parent` is an index, or -1. `path` is its scope
    and its own name.
    """

    start: int
    end: int
    head: int
    body: int
    kind: str
    name: str
    stated_scope: tuple[str, ...]
    scope: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    parent: int = -1
    comments: tuple[Span, ...] = ()


class Syntax(TypedDict):
    """Columns: for definitions in the order of `Definition`, for references in the order of `Reference`.

    In place of its scope, a reference has the index of the definition that contains it (-1: none).
    """

    definitions: Columns
    references: Columns


def syntax(data: bytes, language: str) -> Syntax | None:
    """Definitions and references in UTF-8 source code; None if there is no grammar or the text is mostly errors."""
    language_grammar = grammar(language)
    # with thousands of nodes, garbage collections would take as long as the rest
    with without_garbage_collection():
        return None if language_grammar is None else _syntax(data, language, language_grammar)


def _syntax(data: bytes, language: str, language_grammar: Grammar) -> Syntax | None:
    text = _by_bytes(data)
    analysis = _analysis(data, text, language, language_grammar)
    if analysis is None:
        return None
    definitions, names, captures = analysis
    breaks = (np.frombuffer(data, dtype=np.uint8) == _LINE_BREAK).nonzero()[0]
    # numpy takes several times as long to build this from tuples
    columns = chain.from_iterable(map(attrgetter(column), definitions) for column in ("start", "body", "end", "parent"))
    table = np.fromiter(columns, dtype=np.int64, count=4 * len(definitions)).reshape(4, -1).T
    uses = _uses(text, captures, names, frozenset(_BUILTIN.get(language, "").split()))
    return {
        "definitions": _definition_columns(data, text, breaks, definitions, table),
        "references": reference_columns(breaks, table, uses),
    }


def _analysis(data: bytes, text: str, language: str, language_grammar: Grammar) -> _Analysis | None:
    """Definitions, starts of their names, and captures; None if the text is mostly errors.

    A broken text gives those of its sound parts and of each broken part.
    """
    tree = language_grammar.parser.parse(data)
    found = _recovered(data, text, language, language_grammar, tree)
    spans = conditions.excluded(data) if tree.root_node.has_error and language in _WITH_CONDITIONS else []
    if not spans:
        return found
    # with one branch of each condition that a parser cannot follow
    reduced = language_grammar.parser.parse(error_recovery.blanked(data, spans))
    other = _merged([(0, len(data), reduced)], text, language_grammar)
    if other and (found is None or (len(other[0]) >= len(found[0]) and _names(other[0]) - _names(found[0]))):
        return other
    return found


def _names(definitions: list[_FoundDefinition]) -> set[tuple[str, ...]]:
    return {definition.path for definition in definitions}


def _recovered(data: bytes, text: str, language: str, language_grammar: Grammar, tree: Tree) -> _Analysis | None:
    """Analyse a text's tree, or its broken parts separately if that finds more."""
    whole = _merged([(0, len(data), tree)], text, language_grammar)
    if not tree.root_node.has_error or (whole and not _is_harmed(tree, language)):
        return whole
    parts = error_recovery.broken(data, language, language_grammar.parser, tree)
    if not parts:
        return whole
    spans = [(start, end) for start, end, _ in parts]
    rest = language_grammar.parser.parse(error_recovery.blanked(data, spans))
    mended = _merged([(0, len(data), rest), *parts], text, language_grammar)
    sound = not rest.root_node.has_error
    if mended and (not whole or _is_better(mended[0], whole[0], spans, sound=sound)):
        return mended
    return whole


def _is_harmed(tree: Tree, language: str) -> bool:
    """Return whether an error is so long, or so typical of a lost brace, that it affects more than its own place."""
    harmless, max_errors = _MACROS.get(language, _NO_MACROS)
    errors, end, is_harmed = 0, -1, False
    for node, depth in _walk_to_errors(tree):
        if errors > max_errors:
            return False
        if node.start_byte >= end and depth and (node.is_error or node.is_missing):
            # errors inside another error are caused by it
            errors, end = errors + 1, node.end_byte
        is_long = node.is_error and node.end_byte - node.start_byte > _SMALL_ERROR_BYTES
        is_harmed = is_harmed or is_long or (node.is_missing and node.type not in harmless)
        if is_harmed and not harmless:
            return True
    return is_harmed


def _walk_to_errors(tree: Tree) -> Iterator[tuple[Node, int]]:
    """Yield nodes with their depth, in the order of the text: of nodes without an error only the outermost."""
    cursor = tree.walk()
    while (node := cursor.node) is not None:
        yield node, cursor.depth
        if node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def _is_better(
    mended: list[_FoundDefinition], whole: list[_FoundDefinition], broken: list[Span], *, sound: bool
) -> bool:
    """Return whether mending recovered definitions outside the broken parts without losing more than it gained.

    A loss occurs, for example, if a namespace loses its braces. If the rest is `sound`, lost definitions do not count:
    an error had caused them.
    """
    known_definitions = {(definition.start, definition.end, definition.path) for definition in whole}
    new = [
        definition
        for definition in mended
        if (definition.start, definition.end, definition.path) not in known_definitions
    ]
    is_elsewhere = any(all(not start <= definition.start < end for start, end in broken) for definition in new)
    return is_elsewhere and (sound or len(mended) >= len(whole))


def _by_bytes(data: bytes) -> str:
    """Return a text with one character per byte: slicing it by bytes is faster than decoding slices of bytes."""
    return data.decode("latin-1")


def _decoded(part: str) -> str:
    """Decode a slice of a text that `_by_bytes` made."""
    return part if part.isascii() else part.encode("latin-1").decode(errors="ignore")


def _merged(trees: list[tuple[int, int, Tree]], text: str, language_grammar: Grammar) -> _Analysis | None:
    """Merge the trees of one text, each valid for a byte range. None if the result is mostly errors."""
    errors: list[Span] = []
    captures: Captures = {}
    for start, end, tree in trees:
        of_tree = _errors(tree)
        if of_tree is None:
            return None
        errors += of_tree
        for name, nodes in _captures(tree, language_grammar).items():
            selected = (
                [node for node in nodes if start <= node.start_byte and node.end_byte <= end]
                if len(trees) > 1
                else nodes
            )
            captures.setdefault(name, []).extend(selected)
    names: set[int] = set()
    definitions = _nested(_definitions(text, captures, language_grammar.fields, names))
    if _error_bytes(errors, definitions) > _MAX_ERROR_SHARE * len(text) or (errors and not definitions):
        return None
    return definitions, names, captures


def _captures(tree: Tree, language_grammar: Grammar) -> Captures:
    captures = _matched(tree, language_grammar.query, _MAX_TREE_DEPTH)
    # if the root is an error, nothing is known to be at the top level
    if language_grammar.top is not None and not tree.root_node.is_error:
        for name, nodes in _matched(tree, language_grammar.top, 1).items():
            captures.setdefault(name, []).extend(nodes)
    return captures


def _matched(tree: Tree, query: Query, depth: int) -> Captures:
    """Return the captures of a query, with patterns that start at most `depth` levels deep."""
    from tree_sitter import QueryCursor

    cursor = QueryCursor(query)
    cursor.set_max_start_depth(depth)
    captures: Captures = cursor.captures(tree.root_node)
    return captures


def _errors(tree: Tree) -> list[Span] | None:
    """Byte spans of the outermost errors below the root; None if a query would take too long over one of them."""
    errors: list[Span] = []
    end = -1
    for node, depth in _walk_to_errors(tree):
        if node.is_error:
            if node.child_count > _MAX_ERROR_CHILDREN:
                return None
            if node.start_byte >= end and depth:
                end = node.end_byte
                errors.append((node.start_byte, end))
    return errors


def _definitions(text: str, captures: Captures, fields: NameFields, names: set[int]) -> list[_FoundDefinition]:
    """Definitions ordered by start, outer ones first. Adds the starts of their names to `names`."""
    outer = {_range(inner): node for node in captures.get("outer", ()) if (inner := _last(node)) is not None}
    by_span: dict[Span, _FoundDefinition] = {}
    for kind in _DEFINITION_KINDS:
        for node in captures.get(kind, ()):
            span = _range(node)
            named, scope_names = name_of(node, fields) if span not in by_span else (None, ())
            if named is None:
                continue
            name_start, name_end = _range(named)
            name = _name(_decoded(text[name_start:name_end]))
            if not name or len(name) > _MAX_NAME_CHARS:
                continue
            names.add(name_start)
            start, head, end = _with_wrappers(outer, span)
            body = body_of(node, fields)
            if body is None:
                body = _line_end(text, *span)
            body = min(body, end)
            found = _FoundDefinition(start, end, head, body, kind, name, scope_names)
            found.comments = comments_of(node, text, head, min(body, head + _MAX_HEAD_BYTES))
            by_span[span] = found
    return sorted(sorted(by_span.values(), key=attrgetter("end"), reverse=True), key=attrgetter("start"))


def _name(text: str) -> str:
    # most names are a single word, with nothing to strip
    return text if text.isidentifier() else " ".join(text.split()).strip("\"'")


def _line_end(text: str, start: int, end: int) -> int:
    """Return the end of the span's first line."""
    newline = text.find("\n", start, end)
    return end if newline < 0 else newline


def _last(node: Node) -> Node | None:
    count = node.named_child_count
    return node.named_child(count - 1) if count else None


def _with_wrappers(outer: dict[Span, Node], span: Span) -> tuple[int, int, int]:
    """Start, signature start and end of a definition, including wrappers that enclose nothing else."""
    start, end = span
    head = start
    while (wrapper := outer.get((start, end))) is not None and _range(wrapper) != (start, end):
        start, end = _range(wrapper)
        head = head if wrapper.type == "decorated_definition" else start
    return start, head, end


def _nested(definitions: list[_FoundDefinition]) -> list[_FoundDefinition]:
    """Add scopes to the definitions, and drop repeated names and definitions that are nested too deep."""
    nested: list[_FoundDefinition] = []
    open_: list[int] = []
    for definition in definitions:
        while open_ and nested[open_[-1]].end <= definition.start:
            open_.pop()
        parent = nested[open_[-1]] if open_ else None
        if (
            parent
            and parent.name == definition.name
            and {parent.kind, definition.kind} <= _TYPES
            and not definition.stated_scope
        ):
            continue
        definition.scope = (*(parent.path if parent else ()), *definition.stated_scope)
        if len(definition.scope) > _MAX_DEPTH:
            continue
        definition.path = (*definition.scope, definition.name)
        definition.kind = _kind(definition, parent)
        definition.parent = open_[-1] if open_ else -1
        open_.append(len(nested))
        nested.append(definition)
    return nested


def _kind(definition: _FoundDefinition, parent: _FoundDefinition | None) -> str:
    """Return the final kind: a class's functions become methods, free methods functions, capital names constants."""
    kind = definition.kind
    if kind == "function":
        return "method" if definition.stated_scope or (parent and parent.kind in _WITH_METHODS) else kind
    if kind == "method":
        return kind if definition.scope else "function"
    return "constant" if kind == "variable" and definition.name.isupper() else kind


def _error_bytes(errors: list[Span], definitions: list[_FoundDefinition]) -> int:
    """Return the bytes of errors, less the outermost definitions inside them."""
    sound = [(definition.start, definition.end) for definition in definitions if definition.parent < 0]
    starts = [start for start, _ in sound]
    total = 0
    for start, end in errors:
        inside = sound[bisect_left(starts, start) : bisect_left(starts, end)]
        total += end - start - sum(b - a for a, b in inside)
    return total


def _definition_columns(
    data: bytes, text: str, breaks: Offsets, definitions: list[_FoundDefinition], table: Offsets
) -> Columns:
    """Return the definitions in characters and lines. `table` has their start, body and end in bytes."""
    offsets = table[:, :3] if data.isascii() else in_characters(data, table[:, :3])
    lines = breaks.searchsorted(table[:, ::2] - (0, 1)) + 1
    named = (
        [definition.name for definition in definitions],
        [definition.kind for definition in definitions],
        [definition.scope for definition in definitions],
    )
    return (
        *named,
        *offsets.T.tolist(),
        *lines.T.tolist(),
        [_signature(text, definition) for definition in definitions],
    )


def _signature(text: str, definition: _FoundDefinition) -> str:
    """Return the signature on one line, without comments and the sign that opens the body."""
    parts, start = [], definition.head
    for comment_start, comment_end in definition.comments:
        parts.append(text[start:comment_start])
        start = comment_end
    parts.append(text[start : min(definition.body, definition.head + _MAX_HEAD_BYTES)])
    head = _decoded(" ".join(parts))
    return " ".join(head.split())[:_MAX_SIGNATURE_CHARS].removesuffix("{").removesuffix("=>").rstrip(" :")


def _uses(text: str, captures: Captures, names: set[int], builtin: frozenset[str]) -> list[tuple[int, str, str]]:
    """Return start (byte), name and kind of each reference, in order."""
    uses: dict[int, tuple[int, str, str] | None] = dict.fromkeys(names)
    for kind in _USE_KINDS:
        skipped = builtin if kind == "type" else _NO_NAMES
        # captures are unordered, and of those that start at the same byte only one is kept
        for start, end in sorted(map(_range, captures.get(f"use.{kind}", ()))):
            if start in uses or end - start > _MAX_NAME_CHARS:
                continue
            name = text[start:end]
            if not name.isascii():
                name = _decoded(name)
            if name not in skipped:
                uses[start] = (start, name.strip("<>") if kind == "import" else name, kind)
    return sorted(filter(None, uses.values()))[:_MAX_REFERENCES]

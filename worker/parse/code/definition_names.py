"""Finds a definition's name, its comments, and the start of its body in a syntax tree, in any language."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Language, Node

#: Fields that lead to a name, best first. C nests it in declarators, JavaScript assigns to members.
_FIELDS = ("name", "declarator", "property", "left", "key", "type")

#: Nodes whose name is not in the first of those fields that they have, and the field that holds it.
_FIELD_OF = {"impl_item": "type", "type_definition": "declarator"}

#: Nodes that are a name followed by something else: generic types, a scoped name, a reference's declarator.
_NAME_IS_FIRST_CHILD = frozenset({"type", "reference_declarator", "const_element", "parenthesized_declarator"})

#: Fields that may hold a body, and fields of a value that may have one.
_BODIES = ("body", "accessors")
_VALUES = ("value", "right", "type")

#: Go writes a method's type in front of its name: `(s *Server[T])`.
_RECEIVER = re.compile(r"(\w+)\s*(?:\[[^\]]*\])?\s*\)$")

#: Text that a comment of any language contains.
_COMMENT_SIGN = re.compile(r"#|//|/\*")

#: Maximum fields followed to a name. Declarators in made-up code may nest without end.
_MAX_STEPS = 32


@dataclass(frozen=True, slots=True)
class NameFields:
    """The fields above, by their numbers in a language: lookup by number is several times faster than by name.

    `others` maps the number of a node kind to its own name fields, for kinds that do not use `names`. No fields means
    that the name is the node's first named child.
    """

    names: tuple[int, ...]
    others: dict[int, tuple[int, ...]]
    bodies: tuple[int, ...]
    values: tuple[int, ...]
    receiver: int | None
    scope: int | None


def fields_of(language: Language) -> NameFields:
    """Return the numbers of the fields in a language."""
    kinds = {number: language.node_kind_for_id(number) for number in range(language.node_kind_count)}
    first = {number: () for number, kind in kinds.items() if kind in _NAME_IS_FIRST_CHILD}
    others = {number: _numbers(language, _FIELD_OF[kind]) for number, kind in kinds.items() if kind in _FIELD_OF}
    names, bodies, values = (_numbers(language, *fields) for fields in (_FIELDS, _BODIES, _VALUES))
    receiver, scope = (language.field_id_for_name(name) for name in ("receiver", "scope"))
    return NameFields(names, first | others, bodies, values, receiver, scope)


def _numbers(language: Language, *names: str) -> tuple[int, ...]:
    return tuple(number for name in names if (number := language.field_id_for_name(name)) is not None)


def name_of(node: Node, fields: NameFields) -> tuple[Node | None, tuple[str, ...]]:
    """Return the name node of a definition, and the names of the types it is said to belong to (`Foo::bar`)."""
    step = _step(node, fields)
    # most names are a single word
    if step is None or not (step.named_child_count or fields.receiver):
        return step, ()
    scope = _receiver(node, fields)
    for _ in range(_MAX_STEPS):
        next_step = _step(step, fields) if step.named_child_count else None
        if next_step is None:
            break
        scope += _scope(step, fields)
        step = next_step
    return step, tuple(scope)


def body_of(node: Node, fields: NameFields) -> int | None:
    """Return the byte offset at which a definition's body begins; None if it has no body."""
    for field in fields.bodies:
        body = node.child_by_field_id(field)
        if body is not None:
            return int(body.start_byte)
    for field in fields.values:
        value = node.child_by_field_id(field)
        body = value.child_by_field_id(fields.bodies[0]) if value is not None else None
        if body is not None:
            return int(body.start_byte)
    return None


def comments_of(node: Node, text: str, start: int, end: int) -> tuple[tuple[int, int], ...]:
    """Return the byte spans of a definition's comments in a part of the text, which may begin in its surroundings."""
    # most heads have none
    if _COMMENT_SIGN.search(text, start, end) is None:
        return ()
    while node.start_byte > start and (parent := node.parent) is not None:
        node = parent
    spans: list[tuple[int, int]] = []
    cursor = node.walk()
    while (here := cursor.node) is not None and here.start_byte < end:
        if here.type.endswith("comment") and here.start_byte >= start:
            spans.append((here.start_byte, here.end_byte))
        elif cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return tuple(spans)
    return tuple(spans)


def _step(node: Node, fields: NameFields) -> Node | None:
    """Return the part of a definition or declarator that contains its name."""
    numbers = fields.others.get(node.kind_id, fields.names)
    if not numbers:
        return node.named_child(0)
    for number in numbers:
        part = node.child_by_field_id(number)
        if part is not None:
            return part
    return None


def _receiver(node: Node, fields: NameFields) -> list[str]:
    receiver = None if fields.receiver is None else node.child_by_field_id(fields.receiver)
    match = None if receiver is None else _RECEIVER.search(_text(receiver))
    return [match[1]] if match else []


def _scope(node: Node, fields: NameFields) -> list[str]:
    scope = None if fields.scope is None else node.child_by_field_id(fields.scope)
    return [] if scope is None else re.findall(r"\w+", _text(scope).split("<")[0])


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")

"""How the thing that a syntax node defines is called, and where its body begins, in whatever language."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from tree_sitter import Node

#: Fields that lead to a name, the better ones first: C winds it in declarators, JavaScript assigns to members.
_FIELDS = ("name", "declarator", "property", "left", "key", "type")

#: Nodes whose name is in another field than the best that they have.
_FIELD_OF = {"impl_item": "type", "type_definition": "declarator"}

#: Nodes that are a name followed by something else: generic types, a scoped name, a reference's declarator.
_WITH_MORE = frozenset({"type", "reference_declarator", "const_element", "parenthesized_declarator"})

#: Fields that a body can be found in, and those of a value that has one.
_BODIES = ("body", "accessors")
_VALUES = ("value", "right", "type")

#: The node that Go has a receiver in.
_WITH_RECEIVER = "method_declaration"

#: Go names a method's type in front of it: `(s *Server[T])`.
_RECEIVER = re.compile(r"(\w+)\s*(?:\[[^\]]*\])?\s*\)$")

#: Fields followed to a name, at most; declarators of made-up code are nested without end.
_MOST_STEPS = 32


class Named(NamedTuple):
    """A name, the byte it starts at, and the names of the types it is said to belong to (`Foo::bar`)."""

    name: str
    start: int
    around: tuple[str, ...]


def name_of(node: Node) -> Named | None:
    """The name of a definition, None for what has none."""
    around = []
    step = _step(node)
    # most names are no more than a word
    if step is not None and not step.named_child_count and node.type != _WITH_RECEIVER:
        return _named(step, ())
    receiver = node.child_by_field_name("receiver")
    if receiver is not None and (found := _RECEIVER.search(_text(receiver))):
        around.append(found[1])
    for _ in range(_MOST_STEPS):
        further = _step(step) if step is not None and step.named_child_count else None
        if step is None or further is None:
            break
        scope = step.child_by_field_name("scope")
        if scope is not None:
            around += re.findall(r"\w+", _text(scope).split("<")[0])
        step = further
    return None if step is None else _named(step, tuple(around))


def _named(node: Node, around: tuple[str, ...]) -> Named | None:
    text = _text(node)
    # most are a word, with nothing to be taken away
    name = text if text.isidentifier() else " ".join(text.split()).strip("\"'")
    return Named(name, int(node.start_byte), around) if name else None


def body_of(node: Node) -> int:
    """The byte at which the body of a definition begins; where it has none, the end of its first line."""
    for field in _BODIES:
        body = node.child_by_field_name(field)
        if body is not None:
            return int(body.start_byte)
    for field in _VALUES:
        value = node.child_by_field_name(field)
        body = value.child_by_field_name("body") if value is not None else None
        if body is not None:
            return int(body.start_byte)
    first_line, _, _ = (node.text or b"").partition(b"\n")
    return int(node.start_byte) + len(first_line)


def _step(node: Node) -> Node | None:
    """The part of a definition or declarator that its name is in."""
    type_ = node.type
    if type_ in _WITH_MORE:
        return node.named_child(0)
    if type_ in _FIELD_OF:
        return node.child_by_field_name(_FIELD_OF[type_])
    for field in _FIELDS:
        part = node.child_by_field_name(field)
        if part is not None:
            return part
    return None


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")

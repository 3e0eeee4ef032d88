"""Folders of nodes with access lists, as a model: who reads which file."""

from __future__ import annotations

import random
from dataclasses import dataclass, field


@dataclass
class Node:
    """A folder or file, and its own list; None if it has none."""

    parent: str | None
    is_folder: bool
    acl: list[str] | None = None


@dataclass
class Model:
    """All nodes by id, and the groups of each person."""

    nodes: dict[str, Node] = field(default_factory=dict)
    groups: dict[str, set[str]] = field(default_factory=dict)

    def principals(self, person: str | None) -> set[str]:
        """Of a person; of nobody, those that every caller has."""
        return {"*"} if person is None else {"*", f"user:{person}", *(f"group:{name}" for name in self.groups[person])}

    def reads(self, person: str | None, node: str) -> bool:
        """Whether the nearest list at or above a node names the person, and no entry of it denies them."""
        place: str | None = node
        while place is not None and self.nodes[place].acl is None:
            place = self.nodes[place].parent
        entries = ["*"] if place is None else self.nodes[place].acl or []
        held = self.principals(person)
        return any(each in held for each in entries) and not any(f"!{each}" in entries for each in held)

    def files(self, person: str | None) -> set[str]:
        """The files that a person reads; of a file whose node is gone, nobody knows the list."""
        return {id_ for id_, node in self.nodes.items() if not node.is_folder and self.reads(person, id_)}

    def is_below(self, node: str, folder: str) -> bool:
        """Whether a node is a folder, or lies below it."""
        place: str | None = node
        while place is not None and place != folder:
            place = self.nodes[place].parent
        return place is not None

    def delete(self, node: str) -> None:
        """Delete a node and all below it."""
        for each in [each for each in self.nodes if self.is_below(each, node)]:
            del self.nodes[each]

    def any_list(self, dice: random.Random) -> list[str] | None:
        """A random list; None takes it away."""
        known = ["*", *(f"user:{name}" for name in self.groups), *(f"group:{name}" for name in ("a", "b", "c"))]
        shown = dice.sample(known, dice.choice([0, 1, 1, 2, 3]))
        denied = [f"!{each}" for each in dice.sample(known[1:], dice.choice([0, 0, 1, 2]))]
        return None if dice.random() < 0.2 else [*shown, *denied]

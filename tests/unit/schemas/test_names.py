"""Names and ids that a caller chooses."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from schemas.content.node import NewNode
from schemas.tool import NewTool, ToolPatch


def test_the_name_of_a_tool_is_never_blank() -> None:
    assert NewTool(project_id="p", node_id="n", name=" notes\n").name == "notes"
    assert ToolPatch(name="a b").name == "a b"
    for blank in ("", " ", "\n\t"):
        with pytest.raises(ValidationError):
            NewTool(project_id="p", node_id="n", name=blank)
        with pytest.raises(ValidationError):
            ToolPatch(name=blank)


def test_no_id_of_a_node_is_taken_for_a_step_in_an_address() -> None:
    for step in (".", ".."):
        with pytest.raises(ValidationError, match="choose another id"):
            NewNode(id=step, name="n.md", type="markdown")
    for id_ in ("...", "..a", "a.", " ", "%2e"):
        assert NewNode(id=id_, name="n.md", type="markdown").id == id_

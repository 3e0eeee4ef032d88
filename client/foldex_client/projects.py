"""The calls over projects, and over the content that Foldex keeps for them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from foldex_client.bodies import UNSET, Content, given, readable, sent
from foldex_client.both import Calls, Way, call, listing
from foldex_client.models import Node, Page, Status, Upload
from foldex_client.sending import Request, path_of


class Nodes(Calls[Way]):
    """The content that Foldex itself keeps for a project."""

    @call
    def create(
        self,
        project_id: str,
        name: str,
        type: str = "file",  # noqa: A002 # the service's name for it
        *,
        content: Any = UNSET,
        id: str | None = None,  # noqa: A002 # the service's name for it
        parent_id: str | None = None,
        url: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        acl: Sequence[str] | None = None,
    ) -> Request[Node]:
        """Add a folder, or a file with its content. The name of a "file" tells its type.

        `acl` says who may read it, and what it contains: principals such as "group:hr". Without it, whoever may read
        the folder above.
        """
        body = given(name=name, type=type, id=id, parent_id=parent_id, url=url, metadata=metadata, acl=acl)
        body |= sent(content=content)
        return Request("POST", _project(project_id, "nodes"), Node, body=body, repeatable=False)

    @listing
    def list(
        self, project_id: str, parent_id: str | None = None, *, page_size: int | None = None
    ) -> Request[Page[Node]]:
        """The nodes of a folder, without their content, by name. Without `parent_id`: those of the top level."""
        query = given(parent_id=parent_id, limit=page_size)
        return Request("GET", _project(project_id, "nodes"), Page[Node], query)

    @call
    def get(self, project_id: str, node_id: str) -> Request[Node]:
        """A node with its whole content."""
        return Request("GET", _project(project_id, "nodes", node_id), Node)

    @call
    def content(self, project_id: str, node_id: str) -> Request[bytes]:
        """The content of a file as it was stored. It is read into memory."""
        return Request("GET", _project(project_id, "nodes", node_id, "content"), bytes)

    @call
    def update(
        self,
        project_id: str,
        node_id: str,
        *,
        name: str | None = None,
        parent_id: str | None = UNSET,
        content: Any = UNSET,
        url: str | None = UNSET,
        metadata: Mapping[str, Any] | None = UNSET,
        acl: Sequence[str] | None = UNSET,
    ) -> Request[Node]:
        """Rename, move or rewrite a node, atomically. `parent_id=None` moves it to the project's root.

        `acl=[]` lets nobody read it, `acl=None` whoever may read the folder above.
        """
        body = given(name=name) | sent(parent_id=parent_id, content=content, url=url, metadata=metadata, acl=acl)
        return Request("PATCH", _project(project_id, "nodes", node_id), Node, body=body)

    @call
    def delete(self, project_id: str, node_id: str) -> Request[None]:
        """Delete a node with everything below it."""
        return Request("DELETE", _project(project_id, "nodes", node_id), None)

    @call
    async def upload(
        self,
        project_id: str,
        files: Mapping[str, Content],
        *,
        parent_id: str | None = None,
        index: bool | None = None,
        metadata: Mapping[str, Any] | None = None,
        acl: Sequence[str] | None = None,
    ) -> Upload:
        """Store files, by name, below a folder. Names such as `guide/setup.md` create folders.

        A file that exists gets new content. The answer tells which files were refused, and why. With `index`, it also
        has the id of a tool over the folder. Each file gets the `metadata` and the `acl`; without one, it keeps what it
        has.
        """
        path, query = _project(project_id, "uploads"), given(parent_id=parent_id, index=index)
        with ExitStack() as opened:
            parts: list[Any] = [("files", (name, readable(content, opened))) for name, content in files.items()]
            fields = given(metadata=metadata, acl=acl)
            parts += [(name, (None, json.dumps(value))) for name, value in fields.items()]
            return await self._session.send(Request("POST", path, Upload, query, files=parts, repeatable=False))


class Projects(Calls[Way]):
    """Projects exist once something names them."""

    @call
    def reindex(
        self,
        project_id: str,
        *,
        full: bool | None = None,
        renew_text: bool | None = None,
        allow_removals: bool | None = None,
        paths: Sequence[str] | None = None,
        cursor: str | None = None,
        limit: int | None = None,
    ) -> Request[Page[Status]]:
        """Index what changed in the folders of all tools of a project, with the same options for each.

        If there is a `next_cursor`, call again with it for the tools that follow.
        """
        body = given(full=full, renew_text=renew_text, allow_removals=allow_removals, paths=paths)
        query = given(cursor=cursor, limit=limit)
        path = _project(project_id, "reindex")
        return Request("POST", path, Page[Status], query, body, repeatable=False)

    @call
    def delete(self, project_id: str) -> Request[None]:
        """Delete a project's tools, indexes, nodes, contents and keys."""
        return Request("DELETE", _project(project_id), None)


def _project(*parts: str) -> str:
    return path_of("api", "projects", *parts)

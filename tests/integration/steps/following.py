"""Folders that change, and changes of them, for tests of the runs that follow."""

from __future__ import annotations

from collections.abc import Callable
from uuid import uuid4

from schemas.content.source import NodesSource
from tests.integration.steps.site import Site, new_site
from worker.resources import Resources
from worker.state.content import nodes
from worker.state.content.nodes import NewNode, StoredContent
from worker.state.index import changes

Changes = Callable[[Resources, Site], None]


def local_site(resources: Resources) -> Site:
    site = new_site(resources)
    site.do("""UPDATE search_tool SET config = '{"watch": true}' WHERE id = %s""", site.tool)
    return site


def nodes_site(resources: Resources) -> Site:
    project, root = f"p-{uuid4().hex}", f"n-{uuid4().hex}"
    nodes.insert(resources.pool, project, NewNode(root, None, "root", "folder"), StoredContent())
    site = Site(resources, resources.home, project=project, source=NodesSource(node_id=root))
    site.do("""UPDATE search_tool SET config = '{"auto_reindex": true}' WHERE id = %s""", site.tool)
    return site


def change_files(resources: Resources, site: Site) -> None:
    changes.note_change(resources.pool, site.index.id)


def change_nodes(resources: Resources, site: Site) -> None:
    with resources.pool.connection() as connection:
        changes.pass_on_change(connection, site.project, [f"/{site.index.source.content_node}"])

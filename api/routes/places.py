"""The folders of this machine that may be indexed. The page opened by the stack's link may permit another one."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Header, Query

from api.http.bodies import JsonRoute
from api.http.dependencies import CallerDep, ResourcesDep
from api.http.described_errors import raises
from api.places.shown_folders import shown_folders
from api.places.subfolders import roots, subfolders
from api.routes.paging import Cursor, Limit, from_cursor, to_cursor
from schemas.errors import Invalid, LinkUsed, SessionNeeded, SourceError
from schemas.places import MAX_PATH, MAX_TOKEN, LinkRequest, PageSession, Place, PlaceRequest, Places
from worker.machine import page_links
from worker.machine.named_folders import name_folder, named_folders_file
from worker.machine.paths import is_below, real_path
from worker.resources import Resources
from worker.sources.local import LocalFolder

router = APIRouter(tags=["search tools"], route_class=JsonRoute)

Session = Annotated[
    str | None,
    Header(alias="Foldex-Session", max_length=MAX_TOKEN, include_in_schema=False),
]


@router.get("/api/places", openapi_extra=raises(SourceError))
def list_places(
    caller: CallerDep,
    resources: ResourcesDep,
    path: Annotated[
        str | None,
        Query(
            min_length=1, max_length=MAX_PATH, description="Path of a permitted folder; without it, these are listed."
        ),
    ] = None,
    cursor: Cursor = None,
    limit: Limit = 200,
    session: Session = None,
) -> Places:
    """List the folders of the service's machine that may be indexed: those that are permitted, or those in one.

    Hidden folders, links, and what a run leaves out are not listed. They can be named all the same. A page may have
    fewer items than `limit`, although others follow.
    """
    access, may_permit = resources.access(caller.project_id or ""), _may_permit(resources, session)
    start = (from_cursor(cursor, str) or ("",))[0]
    if path is None:
        permitted = [root for root in roots(access) if root > start]
        found, more = permitted[:limit], len(permitted) > limit
        last, inside = (found[-1] if more else None), None
    else:
        inside = real_path(_checked(path))
        found, last = subfolders(access, path, start, limit, shown_folders(resources.pool, caller))
    return Places(
        items=[_shown(each) for each in found],
        next_cursor=None if last is None else to_cursor(last),
        path=inside,
        may_permit=may_permit,
    )


@router.post("/api/places", status_code=201, openapi_extra=raises(SessionNeeded, SourceError))
def permit_place(body: PlaceRequest, _: CallerDep, resources: ResourcesDep, session: Session = None) -> Place:
    """Permit a folder of the service's machine, as `foldex index` does on the embedded stack.

    The header `Foldex-Session` has the session of a page that the stack's link opened.
    """
    if not _may_permit(resources, session):
        raise SessionNeeded(
            "Only a page that the link of `foldex open` opened may permit a folder; open it, or run "
            "`foldex index FOLDER`."
        )
    home = resources.home
    real = real_path(_checked(os.path.expanduser(body.path)))  # noqa: PTH111 - a string as it is
    LocalFolder(real, [real], closed=home).check()
    if not any(is_below(real, root) for root in resources.access("").options.local_roots):
        name_folder(named_folders_file(home), real)
    return _shown(real)


@router.post("/api/session", status_code=201, openapi_extra=raises(LinkUsed))
def open_session(body: LinkRequest, _: CallerDep, resources: ResourcesDep) -> PageSession:
    """Exchange the link that opened a page for a session, which may permit folders. A link works once."""
    file = page_links.page_links_file(resources.home)
    session = page_links.open_session(file, body.link) if resources.settings.auth == "off" else None
    if session is None:
        raise LinkUsed("The link was used before, or Foldex was started again since; `foldex open` makes a new one.")
    return PageSession(session=session)


def _may_permit(resources: Resources, session: str | None) -> bool:
    """Whether a caller may permit folders. With keys, grants say what a project may read."""
    if session is None or resources.settings.auth != "off":
        return False
    return page_links.is_session(page_links.page_links_file(resources.home), session)


def _checked(path: str) -> str:
    """An absolute path. Raises `Invalid`."""
    if not path.startswith("/"):
        raise Invalid(f"{path!r} is no absolute path; begin it with / or ~/.")
    if "\0" in path or path != path.encode(errors="replace").decode():
        raise Invalid("A path cannot contain a NUL character, or half of another one; remove it.")
    return path


def _shown(path: str) -> Place:
    return Place(path=path, name=Path(path).name or path)

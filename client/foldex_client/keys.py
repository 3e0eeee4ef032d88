"""The calls over the keys of a project. They need a key with the scope `admin`."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from foldex_client.bodies import given
from foldex_client.both import Calls, Way, call, listing
from foldex_client.models import ApiKey, CreatedKey, Page
from foldex_client.sending import Request, path_of

#: A key's row, or its id.
AnyKey = ApiKey | UUID | str


class Keys(Calls[Way]):
    """The keys of a project. Durations are texts such as "30d", in s, m, h or d."""

    @call
    def create(
        self,
        project_id: str,
        *,
        name: str | None = None,
        scopes: Sequence[str] | None = None,
        expires: str | None = None,
    ) -> Request[CreatedKey]:
        """Create a key. Its `key` is shown once. Without `scopes` it has `admin`, without `expires` it stays valid."""
        body = given(name=name, scopes=scopes, expires=expires)
        return Request("POST", _keys(project_id), CreatedKey, body=body, repeatable=False)

    @listing
    def list(self, project_id: str, *, page_size: int | None = None) -> Request[Page[ApiKey]]:
        """All keys of a project, oldest first, also revoked and expired ones."""
        return Request("GET", _keys(project_id), Page[ApiKey], given(limit=page_size))

    @call
    def rotate(
        self, project_id: str, key_id: AnyKey, *, overlap: str | None = None, expires: str | None = None
    ) -> Request[CreatedKey]:
        """Create a key with the same name and scopes. The old one goes on for `overlap`, or for a day."""
        path, body = _keys(project_id, _id(key_id), "rotate"), given(overlap=overlap, expires=expires)
        return Request("POST", path, CreatedKey, body=body, repeatable=False)

    @call
    def revoke(self, project_id: str, key_id: AnyKey) -> Request[None]:
        """Revoke a key immediately. Raises `LastAdminKey` for the last one with the scope `admin`."""
        return Request("DELETE", _keys(project_id, _id(key_id)), None)


def _id(key: AnyKey) -> str:
    return str(key.id if isinstance(key, ApiKey) else key)


def _keys(project_id: str, *parts: str) -> str:
    return path_of("api", "projects", project_id, "keys", *parts)

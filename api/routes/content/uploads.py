"""Streams many files at once into a folder of the content tree, never holding a whole file in memory."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import TypeAdapter, ValidationError
from starlette.requests import ClientDisconnect

from api.http.dependencies import CallerDep, ResourcesDep, needs_space
from api.http.described_errors import raises
from api.routes.content.multipart import MAX_LINE, Multipart
from api.routes.content.nodes import OBJECT_ERRORS, ProjectId, new_object_keys
from api.routes.content.upload_names import MAX_DEPTH, MAX_NAME, clean_path
from api.routes.search.whole_tools import whole_tool
from schemas.content.acl import MAX_ENTRIES, MAX_PRINCIPAL_BYTES, Acl
from schemas.content.document import extension
from schemas.content.metadata import MAX_METADATA_BYTES
from schemas.content.node import Refused, Upload, Uploaded
from schemas.content.source import NodesSource
from schemas.errors import Conflict, FoldexError, Invalid, SourceError, TooLarge
from schemas.fields import Metadata
from schemas.queries.search import Note
from schemas.tool import ToolConfig
from worker.formats.by_name import stated_type
from worker.formats.magic import HEAD, kind_of
from worker.objects.object_store import ObjectWriter
from worker.resources import Resources
from worker.state.content import nodes, uploads
from worker.state.content.uploads import ReceivedFile, SavedFile
from worker.upkeep.orphans import drop

router = APIRouter(prefix="/api/projects/{project_id}/uploads", tags=["nodes"])

#: Bytes passed to the parser's thread at a time; smaller batches would cost more thread switches.
BATCH_BYTES = 1 << 18
#: Seconds without data after which the client counts as disconnected.
SILENCE_SECONDS = 60
#: Maximum bytes of a field that is not a file. Metadata may be written with escapes and spaces.
MAX_FIELD_BYTES = {
    "parent_id": 1000,
    "index": 1000,
    "metadata": 8 * MAX_METADATA_BYTES,
    "acl": 8 * MAX_ENTRIES * MAX_PRINCIPAL_BYTES,
}
#: Maximum number of fields that are not files. Each name may come again, and the last one counts.
MAX_FIELDS = 20
#: Maximum files of an upload, and its maximum bytes by those of a file.
MAX_FILES, FILES_OF_MAX_BYTES = 1000, 20
#: Extensions that files may not have: these hold no text, or only text that needs extraction first.
_NO_TEXT = (
    "exe dll so dylib msi scr bin class pyc pyo pyd wasm elc beam node o a iso img dmg deb rpm apk ipa "
    "mp3 wav flac ogg opus m4a aac wma aiff mid mp4 m4v mov avi mkv webm wmv flv mpg mpeg 3gp "
    "ttf otf woff woff2 eot ttc"
)
REFUSED_TYPES = frozenset(_NO_TEXT.split())
#: Refused files are still read, so that later files are not lost. A body this many times over the limit is aborted.
MAX_OVERRUN = 2
#: Maximum keys announced in one transaction, which costs a disk flush. A batch is half the number of files so far.
MAX_KEY_BATCH = 64

_FILES = {
    "type": "array",
    "items": {"type": "string", "format": "binary"},
    "description": "A file name can contain folders, such as a/b.md.",
    "examples": [["# Set up\n\nRun make.\n"]],
}
_PARENT = {
    "type": "string",
    "description": "Id of the folder node; if omitted, the project's root.",
    "examples": ["folder-001"],
}
_INDEX = {
    "type": "boolean",
    "default": False,
    "description": "Find or create a tool over the folder that follows its uploads and edits, and answer its id.",
    "examples": [True],
}
_METADATA = {
    "type": "string",
    "contentMediaType": "application/json",
    "description": "Metadata of each of the files, a JSON object as a node has it; if omitted, it stays as it is.",
    "examples": ['{"team": "red"}'],
}
_ACL = {
    "type": "string",
    "contentMediaType": "application/json",
    "description": "Access list of each of the files, a JSON list as a node has it; if omitted, it stays as it is.",
    "examples": ['["group:hr"]'],
}
_BODY = {
    "type": "object",
    "required": ["files"],
    "properties": {"files": _FILES, "parent_id": _PARENT, "index": _INDEX, "metadata": _METADATA, "acl": _ACL},
}
#: The config of a tool that `index` creates.
_FOLLOWS = ToolConfig(auto_reindex=True)
_BOOLEAN = TypeAdapter(bool)
_METADATA_OBJECT: TypeAdapter[dict[str, Any]] = TypeAdapter(Metadata)
_ACL_LIST: TypeAdapter[list[str]] = TypeAdapter(Acl)

Parsed = TypeVar("Parsed")


@router.post(
    "",
    dependencies=[needs_space],
    openapi_extra={
        **raises(Conflict, *OBJECT_ERRORS),
        "requestBody": {"required": True, "content": {"multipart/form-data": {"schema": _BODY}}},
    },
)
async def upload_files(
    project_id: ProjectId,
    request: Request,
    caller: CallerDep,
    resources: ResourcesDep,
    parent_id: Annotated[
        str | None, Query(max_length=200, description="Same as the form field parent_id; default: the project's root.")
    ] = None,
    index: Annotated[bool, Query(description="Same as the form field index.")] = False,
) -> Upload:
    """Store files below a folder. A file that exists gets new content. Refusing one file does not affect the others.

    Names such as `guide/setup.md` create folders. All nodes appear together at the end; an aborted upload leaves none.
    """
    caller.check(project_id)
    receiver = IncomingUpload(resources, project_id, parent_id, index=index)
    body = Multipart(request.headers.get("content-type"), receiver)
    try:
        async for batch in _batches(request):
            receiver.count(len(batch))
            await run_in_threadpool(body.feed, batch)
        body.close()
        stored = await run_in_threadpool(receiver.save)
    except (ClientDisconnect, TimeoutError) as error:
        raise Invalid("The connection stalled before the body was complete; send it again.") from error
    finally:
        await run_in_threadpool(receiver.abort)
    if not receiver.index:
        return stored
    return await run_in_threadpool(_index, resources, project_id, receiver.parent_id, stored)


def _index(resources: Resources, project_id: str, parent_id: str | None, stored: Upload) -> Upload:
    """The answer with the id of the folder's tool. The files are stored, so an error only becomes a part of it."""
    try:
        if parent_id is None:
            raise Invalid("A tool needs a folder, and these files are at the project's root; send a parent_id.")
        tool = whole_tool(resources, project_id, _FOLLOWS, NodesSource(node_id=parent_id))
    except FoldexError as error:
        return stored.model_copy(update={"index_error": Note(code=error.code, detail=error.message)})
    return stored.model_copy(update={"tool_id": tool.tool_id})


async def _batches(request: Request) -> AsyncIterator[bytes]:
    """The body in batches of about `BATCH_BYTES`."""
    stream, batch = request.stream(), bytearray()
    while True:
        try:
            async with asyncio.timeout(SILENCE_SECONDS):
                batch += await anext(stream)
        except StopAsyncIteration:
            break
        if len(batch) >= BATCH_BYTES:
            yield bytes(batch)
            batch.clear()
    yield bytes(batch)


@dataclass(slots=True)
class _IncomingFile:
    """An incoming file. `key` names its object, None if not stored; `kind` is the type detected from `head`."""

    sent_name: str
    path: tuple[str, ...]
    size: int = 0
    key: str | None = None
    refused: Refused | None = None
    head: bytearray = field(default_factory=bytearray)
    kind: str | None = None


class IncomingUpload:
    """The `Receiver` of an upload: writes data to the object store as it arrives, and creates nodes in `save`.

    Raises `SourceError` if the store fails, and `Invalid` for a body that is not an upload.
    """

    def __init__(self, resources: Resources, project_id: str, parent_id: str | None, *, index: bool = False) -> None:
        self._resources = resources
        self._project_id = project_id
        #: Id of the folder, and whether a tool over it is wanted: fields of the form may change both until the end.
        self.parent_id = parent_id
        self.index = index
        self._metadata: dict[str, Any] | None = None
        self._acl: list[str] | None = None
        self._max_bytes = FILES_OF_MAX_BYTES * resources.settings.max_file_bytes
        self._files: list[_IncomingFile] = []
        # announced but not used yet
        self._keys: list[str] = []
        self._writer: ObjectWriter | None = None
        self._field: tuple[str, bytearray] | None = None
        self._fields = 0
        self._stored_bytes = self._read_bytes = 0

    def count(self, size: int) -> None:
        """Count received bytes of the body, including those outside files. Raises `TooLarge`."""
        self._read_bytes += size
        if self._read_bytes > MAX_OVERRUN * (self._max_bytes + MAX_FILES * MAX_LINE):
            raise TooLarge(
                f"The upload is far larger than {FILES_OF_MAX_BYTES} times MAX_FILE_BYTES; send fewer files at a time."
            )

    def begin(self, name: str, filename: str | None) -> None:
        """See `Receiver`."""
        self._field = (name, bytearray()) if filename is None else None
        if filename is None:
            self._fields += 1
            if self._fields > MAX_FIELDS:
                raise Invalid(f"The upload has more than {MAX_FIELDS} fields beside its files; send each once.")
            if name not in MAX_FIELD_BYTES:
                raise Invalid(
                    f"The upload has an unknown field {name!r}; send `files`, each with a file name, `parent_id`, "
                    "`index`, `metadata` and `acl`."
                )
            return
        if not self._files and self.parent_id is not None:
            # fail before anything is stored; `save` checks again
            self._check_parent(self.parent_id)
        # refused names are answered, too
        file = _IncomingFile(filename[:MAX_NAME], clean_path(filename)[: MAX_DEPTH + 1])
        self._files.append(file)
        file.refused = self._reason_to_refuse(file)
        if file.refused is None:
            file.key = self._next_key()
            self._writer = self._resources.objects.open(file.key)

    def data(self, piece: bytes) -> None:
        """See `Receiver`."""
        settings = self._resources.settings
        if self._field is not None:
            self._field[1].extend(piece)
            if len(self._field[1]) > MAX_FIELD_BYTES[self._field[0]]:
                raise Invalid(f"The field {self._field[0]} is longer than any of its values; send a shorter one.")
            return
        file = self._files[-1]
        file.size += len(piece)
        if self._writer is None:
            return
        if file.size > settings.max_file_bytes:
            self._refuse(file, Refused.TOO_LARGE)
        elif self._stored_bytes + file.size > self._max_bytes:
            self._refuse(file, Refused.TOO_MUCH)
        else:
            self._writer.write(piece)
            if len(file.head) < HEAD:
                file.head += piece[: HEAD - len(file.head)]
                if len(file.head) == HEAD:
                    self._check_content(file)

    def end(self) -> None:
        """See `Receiver`."""
        if self._field is not None:
            self._take_field(*self._field)
        elif self._writer is not None:
            file = self._files[-1]
            if len(file.head) < HEAD:
                self._check_content(file)
        if self._writer is not None:
            self._writer.close()
            self._writer = None
            self._stored_bytes += self._files[-1].size

    def save(self) -> Upload:
        """Create the nodes of the stored files. Raises `NotFound` or `Invalid` for the parent folder."""
        if not self._files:
            raise Invalid("The upload contains no file; send each file as a field named `files`, with a file name.")
        received = [
            ReceivedFile(file.path, stated_type(file.path[-1]), file.key, file.size) for file in self._files if file.key
        ]
        saved, unused = uploads.save(
            self._resources.pool, self._project_id, self.parent_id, received, self._keys, self._metadata, self._acl
        )
        saved_by_key = {file.key: outcome for file, outcome in zip(received, saved, strict=True)}
        items = [_uploaded(file, saved_by_key[file.key] if file.key else SavedFile(None)) for file in self._files]
        self._files, self._keys = [], []
        drop(self._resources, unused)
        return Upload(items=items)

    def abort(self) -> None:
        """Delete objects that no node names. Does nothing after `save`. The sweep deletes what this cannot."""
        self._discard_current()
        drop(self._resources, [*self._keys, *(file.key for file in self._files if file.key)])

    def _take_field(self, name: str, value: bytearray) -> None:
        text = value.decode(errors="replace")
        if name == "parent_id":
            self.parent_id = text or None
            return
        if name == "metadata":
            self._metadata = _parsed(_METADATA_OBJECT, name, value)
            return
        if name == "acl":
            self._acl = _parsed(_ACL_LIST, name, value)
            return
        try:
            self.index = _BOOLEAN.validate_python(text)
        except ValidationError as error:
            raise Invalid(f"The field index is {text!r}; send true or false.") from error

    def _next_key(self) -> str:
        if not self._keys:
            self._keys = new_object_keys(
                self._resources, self._project_id, min(max(1, len(self._files) // 2), MAX_KEY_BATCH)
            )
        return self._keys.pop()

    def _discard_current(self) -> None:
        """Discard the file that is being stored, if any."""
        if self._writer is None:
            return
        writer, self._writer = self._writer, None
        key, self._files[-1].key = self._files[-1].key, None
        try:
            writer.abort()
        except SourceError:
            # the key stays announced, so the sweep also deletes a partial object
            return
        drop(self._resources, [key] if key else [])

    def _reason_to_refuse(self, file: _IncomingFile) -> Refused | None:
        if len(self._files) > MAX_FILES * 2 * MAX_OVERRUN:
            raise TooLarge(f"The upload has far more than {MAX_FILES:,} files; send fewer at a time.")
        if len(self._files) > MAX_FILES:
            return Refused.TOO_MANY
        if not file.path:
            return Refused.BAD_NAME
        if len(file.path) > MAX_DEPTH:
            return Refused.TOO_DEEP
        return Refused.UNSUPPORTED_TYPE if extension(file.path[-1]) in REFUSED_TYPES else None

    def _check_content(self, file: _IncomingFile) -> None:
        """Refuse a file whose first bytes show a refused type, whatever its name says."""
        file.kind = kind_of(bytes(file.head))
        if file.kind in REFUSED_TYPES:
            self._refuse(file, Refused.UNSUPPORTED_TYPE)

    def _refuse(self, file: _IncomingFile, reason: Refused) -> None:
        """Refuse a file and discard its data. The rest of it is still read, as other files may follow."""
        self._discard_current()
        file.refused = reason

    def _check_parent(self, parent_id: str) -> None:
        if nodes.get(self._resources.pool, self._project_id, parent_id).type != "folder":
            raise Invalid(f"The node {parent_id!r} is not a folder; choose a folder as parent_id.")


def _parsed(form: TypeAdapter[Parsed], name: str, value: bytearray) -> Parsed:
    try:
        return form.validate_json(bytes(value))
    except ValidationError as error:
        raise Invalid(f"The field {name} is not valid: {error.errors()[0]['msg']}.") from error


def _uploaded(file: _IncomingFile, saved: SavedFile) -> Uploaded:
    refused = file.refused or saved.refused
    name = file.path[-1] if file.path else file.sent_name
    return Uploaded(
        file_id=saved.node_id,
        file_name=name,
        file_path="/".join(file.path) or file.sent_name,
        file_extension=extension(name),
        size=file.size,
        outcome="refused" if refused else ("created" if saved.is_new else "updated"),
        reason=refused,
        message=refused and _message(file, refused),
    )


def _message(file: _IncomingFile, refused: Refused) -> str:
    by_content = refused is Refused.UNSUPPORTED_TYPE and file.kind
    return f"The content is that of a .{file.kind} file. {refused.remedy}" if by_content else refused.remedy

"""Describes the contents near a bucket prefix without objects."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches

from schemas.content.source import S3
from schemas.errors import SourceError
from worker.objects.object_store import s3_client, s3_errors
from worker.sources.s3_reader import BucketPrefix

#: Maximum number of names in a sentence.
_SHOWN = 5
#: Maximum number of keys and folders of a folder that are read.
_LOOKED_AT = 1000
#: How similar a folder's name must be to be suggested, from 0 to 1.
_SIMILARITY = 0.6


def nearby(place: BucketPrefix, may_read: Callable[[str], bool]) -> str:
    """Return a sentence on a prefix without objects. It names only places that `may_read` allows."""
    here = f"{S3}{place.bucket}/{place.prefix}"
    try:
        return next(_find(place, here, may_read), f"{here} holds no object; check the bucket and the prefix.")
    except SourceError:
        # the credentials may list this prefix alone
        return f"{here} holds no object; check the bucket and the prefix."


def _find(place: BucketPrefix, here: str, may_read: Callable[[str], bool]) -> Iterator[str]:
    """Yield sentences about the nearest contents, beginning in the folder above."""
    names = place.prefix.split("/")[:-1]
    for depth in reversed(range(len(names))):
        above = "".join(f"{name}/" for name in names[:depth])
        address, wanted = f"{S3}{place.bucket}/{above}", names[depth]
        if not may_read(address):
            return
        folders, files = _content(place, above)
        if wanted in files and depth == len(names) - 1:
            yield f'{here[:-1]} is an object, not a folder; index {address} with config.include: ["/{wanted}"].'
        elif wanted in folders:
            yield f"{here} holds no object; check the bucket and the prefix."
        elif like := _like(wanted, folders):
            yield f"{here} holds no object; did you mean {address}{like}/?"
        elif folders or files:
            shown = [*(f"{name}/" for name in folders), *files]
            more = " and more" if len(shown) > _SHOWN else ""
            yield f"{here} holds no object; {address} holds {', '.join(shown[:_SHOWN])}{more}."


def _content(place: BucketPrefix, above: str) -> tuple[Sequence[str], Sequence[str]]:
    """Return the names of the first folders and objects in a folder."""
    with s3_errors(place.bucket):
        answer = s3_client(place.endpoint_url).list_objects_v2(
            Bucket=place.bucket, Prefix=above, Delimiter="/", MaxKeys=_LOOKED_AT
        )
    folders = [folder["Prefix"].removeprefix(above).rstrip("/") for folder in answer.get("CommonPrefixes", [])]
    files = [item["Key"].removeprefix(above) for item in answer.get("Contents", [])]
    return folders, [name for name in files if name]


def _like(wanted: str, folders: Sequence[str]) -> str | None:
    """Return the folder that was probably meant: equal except for case, or else with a similar name."""
    same = next((name for name in folders if name.casefold() == wanted.casefold()), None)
    return same or next(iter(get_close_matches(wanted, folders, 1, _SIMILARITY)), None)

"""Chooses the local model of a tool that names none, by the languages in which its folder is written."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple
from uuid import UUID

from api.http.lookup_cache import LookupCache
from schemas.content.document import SourceEntry
from schemas.content.source import AnySource
from schemas.errors import FileError, FoldexError, ModelNotAllowed, ModelRefused
from schemas.tool import ToolConfig
from worker.embed.local import e5, minilm
from worker.formats import by_name
from worker.formats.registry import AS_WRITTEN
from worker.ignore import Rules
from worker.resources import Resources
from worker.sandbox.pool import ProjectHelpers
from worker.sandbox.texts import sample_of
from worker.settings import Settings
from worker.sources import Source
from worker.state.index import tools
from worker.state.index.statuses import TaskOfTool
from worker.state.index.tools import Index
from worker.state.search import languages
from worker.tokens.languages import DEFAULT, language_of

#: Seconds after which no further file of the sample is read.
SAMPLE_SECONDS = 2.0
#: Files of the sample, and characters of each.
SAMPLE_FILES, SAMPLE_CHARACTERS = 24, 2000
#: Bytes of a file of the sample: of a text, and of a document, such as a PDF with its pictures.
MAX_BYTES, MAX_DOCUMENT_BYTES = 1 << 20, 4 << 20
#: Least seconds of processor time of a document, so that the last one has a chance.
MIN_DOCUMENT_SECONDS = 0.1
#: Part of the time left that one document may take, so that a slow one leaves time for others.
DOCUMENT_SHARE = 8
#: Types that hold more names and numbers than sentences, and pictures, which take long to read.
NOT_PROSE = frozenset({"code", "json", "yaml", "toml", "csv", "notebook", "xls", "xlsx", "image"})
#: Share of the sampled characters from which other languages decide: a folder in English quotes some.
OTHERS_DECIDE = 0.3
#: Share of an index's chunks in other languages from which a status says that its model does not read them.
OTHERS_PREVAIL = 0.5
#: Seconds for which a process remembers that share, which changes with a task only.
REMEMBERED_SECONDS = 3600

OTHER_LANGUAGE = (
    f"{{:.0%}} of the text is in other languages than English, which {minilm.MODEL} hardly "
    f"reads, so mostly words find it. To change the model, set config.embedding_model to {e5.MODEL}. Then all text is "
    "embedded again; a dry run tells how much that is."
)


class Choice(NamedTuple):
    """A model, and why it was chosen; None where the default applies."""

    model: str | None = None
    reason: str | None = None


def chosen_model(resources: Resources, project_id: str, source: AnySource, config: ToolConfig) -> Choice:
    """The model of a tool over a source.

    Whatever a tool or the operator names decides, then a local model of the newest index over the source. Else it is
    multilingual-e5-small if the folder is written in other languages than English, and if this model can be used.
    """
    settings = resources.settings
    if not settings.model_by_language or config.embedding_model is not None or config.dimensions is not None:
        return Choice()
    if present := tools.newest_local_model(resources.pool, project_id, source):
        return Choice(*present)
    rules = Rules(config.include, config.exclude, keep=config.keep, use_ignore_files=config.use_ignore_files)
    try:
        share = _share_of_others(resources.source(project_id, source, rules), resources.helpers(project_id))
    except FoldexError:
        # who lists the folder later reports what is wrong with it
        return Choice()
    if share < OTHERS_DECIDE:
        return Choice()
    try:
        # last, because it reads the whole model
        resources.profile(e5.MODEL, None)
    except (ModelNotAllowed, ModelRefused):
        return Choice()
    return Choice(e5.MODEL, f"{share:.0%} of the text in a sample of its files is in other languages than English.")


def warm(settings: Settings) -> None:
    """Load what tells languages apart, if tools without a model need it. The first time in a home takes 0.5 s."""
    if settings.model_by_language:
        language_of("Dies lädt das Modell, weil es kein Englisch ist.")


def warning_of(resources: Resources, index: Index, task: TaskOfTool) -> str | None:
    """The warning in a tool's status if its folder now has languages that its model cannot read.

    None if the tool or the operator named the model, and while a task goes on.
    """
    is_chosen = resources.settings.model_by_language and not task.names_model
    if not is_chosen or index.settings.embedder.model != minilm.MODEL or task.finished_at is None:
        return None
    read = partial(languages.others_share, resources.pool, index.id, NOT_PROSE)
    share = _shares.get((index.id, task.task_id), read) or 0.0
    return OTHER_LANGUAGE.format(share) if share >= OTHERS_PREVAIL else None


_shares: LookupCache[tuple[UUID, UUID], float] = LookupCache(lambda _: None, REMEMBERED_SECONDS)


def _share_of_others(source: Source, helpers: ProjectHelpers) -> float:
    """The share of a sample's characters that are in other languages than English. Raises `SourceError`."""
    deadline = time.monotonic() + SAMPLE_SECONDS
    characters = others = 0
    for entry in _sampled(source, deadline):
        text = _text(source, helpers, entry, deadline)
        characters += len(text)
        others += len(text) * (language_of(text) != DEFAULT)
        if time.monotonic() > deadline:
            break
    return others / characters if characters else 0.0


def _sampled(source: Source, deadline: float) -> Iterator[SourceEntry]:
    """Files of prose, spread over the first page of the listing that has some. Texts come before documents."""
    cursor = None
    while time.monotonic() < deadline:
        page = source.list(cursor)
        prose = [entry for entry in page.entries if _is_prose(entry)]
        step = -(-len(prose) // SAMPLE_FILES) or 1
        yield from sorted(prose[::step], key=_is_document)
        cursor = page.cursor
        if prose or cursor is None:
            return


def _is_prose(entry: SourceEntry) -> bool:
    most = MAX_DOCUMENT_BYTES if _is_document(entry) else MAX_BYTES
    return entry.reason is None and 0 < entry.size <= most and _type(entry) not in NOT_PROSE


def _is_document(entry: SourceEntry) -> bool:
    """Whether a file must be parsed for its text."""
    return _type(entry) not in AS_WRITTEN


def _type(entry: SourceEntry) -> str:
    return by_name.of(by_name.with_stated_type(entry.path, entry.type))[0].type


def _text(source: Source, helpers: ProjectHelpers, entry: SourceEntry, deadline: float) -> str:
    """The beginning of a file; nothing if it would not be indexed, or is not read in time."""
    try:
        content = source.read(entry.key, MAX_DOCUMENT_BYTES, entry.stamp)
        name = by_name.with_stated_type(entry.path, content.type)
        left = max(MIN_DOCUMENT_SECONDS, (deadline - time.monotonic()) / DOCUMENT_SHARE)
        return sample_of(
            helpers, content.data, name=name, keep=(), characters=SAMPLE_CHARACTERS, document_seconds=left
        ).text
    except FileError:
        return ""

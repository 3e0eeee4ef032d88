"""Reads folders of e-mail messages in one file (mbox): each message is a section, named by its subject."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from schemas.content.document import Document
from schemas.errors import FileError
from schemas.reason import Reason
from schemas.wording import amount, noun
from worker.parse.limits import Limits
from worker.parse.mail import email
from worker.parse.ocr.pictures import with_pictures
from worker.parse.text.markdown_blocks import heading, joined, paragraph

#: The line before a message: a sender and a date, with a time of day. A line of text with that beginning is escaped.
_START = re.compile(rb"^From [^\r\n]{0,300}\d:\d\d[^\r\n]{0,100}\r?\n", re.MULTILINE)
_ESCAPED = re.compile(rb"^>(?=>*From )", re.MULTILINE)


def read(data: bytes, limits: Limits) -> Document:
    """Return the messages as Markdown, in their order. Without a line that starts a message, the file is one."""
    starts = list(_START.finditer(data))
    limits.check_pages(len(starts), "messages")
    begins = [start.end() for start in starts] or [0]
    ends = [*(start.start() for start in starts[1:]), len(data)]
    messages = [_ESCAPED.sub(b"", data[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    failures = list[FileError]()
    text = joined(_sections(messages, limits, failures), limits)
    if failures and not text:
        raise failures[0]
    count = len(failures)
    them = noun(count, "it", "them")
    note = f"{amount(count, 'message')} cannot be read; export {them} again to find {them}." if failures else ""
    document = Document(text, "mbox", markup="markdown", note=note)
    return with_pictures(document, chain.from_iterable(map(email.pictures, messages)), limits)


def _sections(messages: list[bytes], limits: Limits, failures: list[FileError]) -> Iterator[str]:
    """Yield the readable messages, and add the reason for each of the others to `failures`."""
    # the limit on pictures applies to the whole file
    limits = replace(limits, ocr_pictures=0)
    for data in messages:
        try:
            message = email.read(data, limits)
        except FileError as failure:
            if failure.reason is Reason.TOO_LARGE:
                raise
            failures.append(failure)
            continue
        yield heading(1, message.title or "(no subject)") if message.text else ""
        yield message.text if message.markup == "markdown" else paragraph(message.text)

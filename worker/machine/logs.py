"""Structured logs: one key=value line per event, INFO for the flow, DEBUG for every file."""

from __future__ import annotations

import logging
import re
import sys
from typing import Any
from uuid import UUID

import structlog

#: Control characters, which could forge lines or drive a terminal. The renderer escapes line breaks.
_CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]")
#: LiteLLM's loggers.
LITELLM_LOGGERS = ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy")


def configure(level: str) -> None:
    """Send all logs, including those of libraries, to standard error in one format."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                _escape,
                structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False),
            ],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Celery logs the start and end of every message, and the clock sends messages every second
    celery = ("celery.beat", "celery.worker.strategy", "celery.worker.request", "celery.app.trace")
    for noisy in ("httpx", "httpx2", "httpcore", "yoyo", "boto3", "botocore", "urllib3", *celery):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    # LiteLLM also raises the failures that it logs, and under load it warns every few seconds of a backlog that nobody
    # needs
    for name in LITELLM_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def request_at_hand() -> str | None:
    """Return the id of the request for which this thread works, from the log context; None if there is none."""
    return structlog.contextvars.get_contextvars().get("request_id")


def bind_run(task_id: UUID, tool_id: UUID, request_id: str | None) -> None:
    """Add a run over an index, and the request that led to it, to the log lines of this thread."""
    structlog.contextvars.bind_contextvars(task_id=str(task_id), tool_id=str(tool_id))
    if request_id is None:
        # the message may be another run's
        structlog.contextvars.unbind_contextvars("request_id")
    else:
        structlog.contextvars.bind_contextvars(request_id=request_id)


def _escape(_: Any, _name: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Escape control characters in untrusted text, such as file names."""
    return {
        key: _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", value) if isinstance(value, str) else value
        for key, value in event.items()
    }

"""Structured logs: one line of key=value (or JSON) each, INFO for the flow, DEBUG for every file."""

from __future__ import annotations

import logging
import sys

import structlog


def configure(level: str) -> None:
    """Send everything, libraries' records too, to standard error in one form."""
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
                structlog.processors.LogfmtRenderer(key_order=["timestamp", "level", "event"], bool_as_flag=False),
            ],
        )
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # Celery says of every message that it came and went, and the clock sends one every two seconds
    celery = ("celery.beat", "celery.worker.strategy", "celery.worker.request", "celery.app.trace")
    for noisy in ("LiteLLM", "httpx", "httpx2", "httpcore", "yoyo", "boto3", "botocore", "urllib3", *celery):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )

"""Checks which services a process can reach from its machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

import structlog
from kombu import Connection
from kombu.exceptions import OperationalError

from schemas.errors import FileError, FoldexError
from worker.settings import Settings
from worker.stores import STORES, StoreOptions

#: Seconds to connect to the broker.
CONNECT_SECONDS = 3
#: The object and the namespace that are requested. Neither exists, and it makes no difference whether they do.
NOWHERE = "foldex-doctor"
#: Maximum characters of an error that are kept.
MAX_ERROR = 300

log = structlog.get_logger()


def probe_services(settings: Settings) -> Mapping[str, str | None]:
    """Return each configured service with its error, or None if it is reachable. This may take a minute."""
    probes: dict[str, Callable[[Settings], None]] = {"the broker": _ask_broker}
    if settings.s3_bucket:
        probes["S3"] = _ask_s3
    if settings.turbopuffer_api_key:
        probes["Turbopuffer"] = _ask_turbopuffer
    return {service: _failure(settings, probe) for service, probe in probes.items()}


def _failure(settings: Settings, probe: Callable[[Settings], None]) -> str | None:
    try:
        probe(settings)
    except FoldexError as error:
        return error.message[:MAX_ERROR]
    except OperationalError:
        # its text may contain the address with its password
        return "It does not answer; check CELERY_BROKER_URL and the network."
    except Exception as error:  # a failure of the library is a result too
        log.exception("a service could not be asked")
        return f"{type(error).__name__} in its client."
    return None


def _ask_broker(settings: Settings) -> None:
    limits = {"socket_timeout": CONNECT_SECONDS, "socket_connect_timeout": CONNECT_SECONDS}
    options = limits if settings.celery_broker_url.startswith("redis") else {}
    with Connection(
        settings.celery_broker_url, connect_timeout=CONNECT_SECONDS, transport_options=options
    ) as connection:
        connection.ensure_connection(max_retries=1, interval_start=0)


def _ask_s3(settings: Settings) -> None:
    from worker.objects.object_store import S3Objects

    # listing a bucket may need a permission that Foldex does not need
    with suppress(FileError):
        S3Objects(settings.s3_bucket or "", settings.s3_endpoint_url).get(NOWHERE, 0)


def _ask_turbopuffer(settings: Settings) -> None:
    STORES["turbopuffer"].open(settings.values(StoreOptions), False, None).ids(NOWHERE, None, 1)

"""The part of `foldex doctor` about hosts: as the service sees them, or as a production machine finds them itself."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from api.cli.check_outcome import CheckOutcome
from schemas.errors import Invalid, IssuerUnavailable, SchemaBehind
from schemas.wording import amount, noun

if TYPE_CHECKING:
    from api.cli.service.connection import Connection
    from foldex_client.models import Hosts
    from worker.settings import Settings
    from worker.state.hosts import HostProcess
    from worker.state.pool import Pool

#: What takes no part in Foldex if nobody does it, with the remedy.
NEEDED = {
    "api": "No API runs; start one with `foldex serve`.",
    "fast": "No worker takes from the queue fast, so nothing is listed; start one.",
    "bulk": "No worker takes from the queue bulk, so no large folder is indexed; start one.",
    "beat": "No scheduler (beat) runs, so lost messages are not sent again; start one.",
}


def of_service(service: Connection) -> Iterator[CheckOutcome]:
    """Hosts as the service sees them."""
    seen = service.foldex.hosts()
    for finding in seen.findings:
        yield CheckOutcome(finding.what, False, finding.detail)
    if not seen.findings and seen.processes:
        yield CheckOutcome("hosts", True, _summary(seen))


def _summary(seen: Hosts) -> str:
    hosts = len({each.host for each in seen.processes})
    clock = max(abs(each.clock_seconds) for each in seen.processes)
    count = len(seen.processes)
    agree = f"{amount(count, 'process', 'processes')} on {hosts} {noun(count, 'agrees', 'agree')}"
    return f"{agree}; clocks differ from Postgres' by {clock:.1f} s or less"


def of_this_machine() -> Iterator[CheckOutcome]:
    """Results for a machine that has an installation's settings, but no stack in its directory."""
    import psycopg

    from worker.settings import Settings
    from worker.state.connections import BRIEF, BoundedConnection
    from worker.state.pool import open_pool
    from worker.state.schema_version import SchemaGate

    try:
        settings = Settings()
    except Invalid as error:
        yield CheckOutcome("settings", False, error.message)
        return
    for sentence in Settings.misspelt(os.environ):
        yield CheckOutcome("settings", False, sentence)
    try:
        # fails at once, where a pool would go on trying
        BoundedConnection.open(settings.database, BRIEF).close()
        with open_pool(settings.database, max_size=1, limits=BRIEF, gate=SchemaGate()) as pool:
            yield CheckOutcome("database", True, "answers")
            yield from _registry(pool)
    except SchemaBehind as error:
        yield CheckOutcome("database", False, error.message)
    except psycopg.OperationalError:
        yield CheckOutcome("database", False, "does not answer; check DATABASE_URL, and that Postgres runs.")
    yield from issuer(settings)
    yield from _probe(settings)


def issuer(settings: Settings) -> Iterator[CheckOutcome]:
    """Whether the keys can be read from here that check the tokens of an issuer, if tokens are taken."""
    if settings.oidc_jwks is None or settings.auth == "off":
        return
    from api.identity.issuer_keys import read_keys

    try:
        count = len(read_keys(settings.oidc_jwks))
    except IssuerUnavailable as error:
        yield CheckOutcome("OIDC_JWKS", False, f"{settings.oidc_jwks} cannot be read: {error.message}; correct it.")
    else:
        yield CheckOutcome("OIDC_JWKS", True, f"{amount(count, 'key')} for tokens of {settings.oidc_issuer}")


def _registry(pool: Pool) -> Iterator[CheckOutcome]:
    from worker.hosts import compare
    from worker.state import open_work, silent_backends

    processes, findings = compare.survey(pool)
    for process in processes:
        yield CheckOutcome(process.name, True, _describe(process))
    for sentence in missing(processes):
        yield CheckOutcome("hosts", False, sentence)
    for finding in findings:
        yield CheckOutcome(finding.what, False, str(finding))
    if open_work.sweep_age(pool) > open_work.UNWATCHED_SECONDS:
        yield CheckOutcome("health", False, open_work.UNWATCHED)
    for blocker in silent_backends.blockers(pool):
        yield CheckOutcome("health", False, str(blocker))


def missing(processes: Sequence[HostProcess]) -> list[str]:
    """One sentence for each role that no process has."""
    done = {process.role for process in processes} | {queue for process in processes for queue in process.queues}
    return [sentence for part, sentence in NEEDED.items() if part not in done]


def _describe(process: HostProcess) -> str:
    """Describe a process by the facts that it registered."""
    reached = sorted(service for service, failure in process.reached.items() if failure is None)
    parts = [
        f"release {process.release}",
        f"clock {process.clock_seconds:+.1f} s",
        *(f"{name} {', '.join(values)}" for name, values in sorted(process.shown.items()) if values),
        *([f"reaches {', '.join(reached)}"] if reached else []),
    ]
    return "; ".join(parts)


def _probe(settings: Settings) -> Iterator[CheckOutcome]:
    """Check the services that this machine itself reaches."""
    from worker.hosts.reach import probe_services

    for service, failure in probe_services(settings).items():
        yield CheckOutcome(f"{service} from here", failure is None, failure or "answers")

"""Finds faults of an installation's hosts by comparing them. Each finding names hosts and the remedy."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from schemas.wording import amount, list_first, noun
from worker.hosts.presence import MAX_CLOCK_SECONDS, is_wrong
from worker.machine.host import Host, plain
from worker.state import hosts
from worker.state.hosts import ClockOffset, HostProcess
from worker.state.pool import Pool

#: Maximum number of processes that a sentence names, and of findings per check.
MAX_NAMED, MAX_FINDINGS = 3, 20

Settings = Mapping[str, Mapping[str, str | None]]


@dataclass(frozen=True, slots=True)
class Finding:
    """A fault of hosts. `detail` is a service's message, which not everybody may read."""

    what: str
    sentence: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.sentence} {self.detail}".rstrip()


def survey(pool: Pool) -> tuple[list[HostProcess], list[Finding]]:
    """Return the processes that run now, and the faults of their hosts."""
    processes = hosts.alive(pool)
    digests = sorted({process.settings_digest for process in processes})
    settings = hosts.settings_of(pool, digests) if len(digests) > 1 else {}
    return processes, compare(processes, settings)


def findings(pool: Pool) -> list[Finding]:
    """Return the faults of the hosts that run now."""
    return survey(pool)[1]


def compare(processes: Sequence[HostProcess], settings: Settings) -> list[Finding]:
    """Return the faults of these processes. `settings` has their hashes of settings by digest."""
    found = [*_clocks(processes), *_releases(processes), *_settings(processes, settings), *_services(processes)]
    if len(found) > MAX_FINDINGS:
        more = len(found) - MAX_FINDINGS
        found = [
            *found[:MAX_FINDINGS],
            Finding("hosts", f"{amount(more, 'more difference')} between hosts {noun(more, 'is', 'are')} not shown."),
        ]
    return found


def _clocks(processes: Sequence[HostProcess]) -> Iterable[Finding]:
    """Yield the hosts whose clock differs, each by its latest heartbeat."""
    latest: dict[Host, HostProcess] = {}
    for process in sorted(processes, key=lambda each: -each.unseen_seconds):
        latest[process.host] = process
    for host, process in sorted(latest.items(), key=lambda item: str(item[0])):
        if is_wrong(ClockOffset(process.clock_seconds, process.clock_doubt_seconds)):
            where = "ahead of" if process.clock_seconds > 0 else "behind"
            yield Finding(
                "clock",
                f"The clock of {host} is {abs(process.clock_seconds):.1f} s {where} Postgres', and more than "
                f"{MAX_CLOCK_SECONDS:g} s are too many; synchronise both.",
            )


def _releases(processes: Sequence[HostProcess]) -> Iterable[Finding]:
    by_release: dict[tuple[str, str], list[str]] = defaultdict(list)
    for process in processes:
        by_release[plain(process.release), plain(process.needed_schema)].append(process.name)
    if len(by_release) > 1:
        parts = [f"{_named(names)}: {release} ({schema})" for (release, schema), names in sorted(by_release.items())]
        yield Finding("release", f"Releases and schemas differ ({'; '.join(parts)}); finish the upgrade.")


def _settings(processes: Sequence[HostProcess], settings: Settings) -> Iterable[Finding]:
    """Yield the settings that are not equal, grouped if they differ for the same processes."""
    values: dict[str, dict[str | None, list[str]]] = defaultdict(lambda: defaultdict(list))
    for process in processes:
        for name, value in settings.get(process.settings_digest, {}).items():
            values[name][value].append(process.name)
    groups: dict[str, list[str]] = defaultdict(list)
    for name, by_value in sorted(values.items()):
        # the majority's value, and on a tie the first one
        usual = max(filter(None, by_value), key=lambda value: len(by_value[value]), default=None)
        rest = _named(by_value[usual])
        for value, odd in by_value.items():
            if value != usual:
                differs = f"not set for {_named(odd)}, but for {rest}" if value is None else ""
                groups[differs or f"different for {_named(odd)} and for {rest}"].append(name)
    for how, names in groups.items():
        verb = "is" if len(names) == 1 else "are"
        yield Finding("settings", f"{_listed(names)} {verb} {how}; set the same there, and restart.")


def _services(processes: Sequence[HostProcess]) -> Iterable[Finding]:
    failed: dict[tuple[str, str], list[str]] = defaultdict(list)
    for process in processes:
        for service, failure in process.reached.items():
            if failure is not None:
                failed[service, failure].append(process.name)
    for (service, failure), names in sorted(failed.items()):
        verb = "does" if len(names) == 1 else "do"
        yield Finding("services", f"{_named(names)} {verb} not reach {service}.", failure)


def _named(names: Sequence[str]) -> str:
    """Name a few processes, and the number of the others."""
    shown = list(dict.fromkeys(names))
    return list_first(shown, MAX_NAMED) if len(shown) > MAX_NAMED else _listed(shown)


def _listed(words: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(words[:-1]), words[-1])))

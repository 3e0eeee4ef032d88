"""Runs every test and prints one summary: `python -m tests`. The parts differ in how many processes they use.

If few tests of a part fail, they run once more, one at a time. The summary names those that pass then as flaky: other
tests or a busy machine made them fail, and they need a repair. A fault in the code fails twice.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

_ALIKE = ("--dist", "loadfile", "--no-loadscope-reorder")
#: Arguments of pytest. Modules that mostly wait come first; compute-bound modules then fill the gaps.
PARTS = (
    ("-n", "4", *_ALIKE, "tests/integration", "tests/acceptance", "tests/browser", "tests/contract", "tests/unit"),
    ("-n", "3", *_ALIKE, "tests/chaos"),
)
#: The most failed tests of a part that run once more.
RERUN_AT_MOST = 3
#: The exit status of pytest when tests failed.
_FAILED = 1
#: The exit status that a shell gives after Ctrl-C.
_INTERRUPTED = 130


@dataclass(slots=True)
class Counts:
    """The outcome of tests. An error outside a test counts as a failure. `skipped` counts by reason."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    flaky: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def add(self, report: Path) -> None:
        """Add a JUnit report."""
        for suite in ET.parse(report).getroot().iter("testsuite"):
            reasons = [found.get("message") or "no reason" for found in suite.iter("skipped")]
            failed = [
                f"{case.get('classname')}.{case.get('name')}"
                for case in suite.iter("testcase")
                for found in case
                if found.tag in {"failure", "error"}
            ]
            self.skipped.update(reasons)
            self.failed += failed
            self.passed += int(suite.get("tests", 0)) - len(failed) - len(reasons)

    def merge(self, other: Counts) -> None:
        self.passed += other.passed
        self.failed += other.failed
        self.flaky += other.flaky
        self.skipped.update(other.skipped)


def main(parts: Sequence[Sequence[str]] = PARTS) -> int:
    """Run all parts, whatever the outcome of each, and print the summary. Returns the first failed part's status."""
    total, status = Counts(), 0
    for part in parts:
        with tempfile.TemporaryDirectory() as scratch:
            ended, counts = _run_part(part, Path(scratch))
        total.merge(counts)
        status = status or ended
        if ended == _INTERRUPTED:
            break
    _print(total)
    return status or int(bool(total.failed))


def _run_part(part: Sequence[str], scratch: Path) -> tuple[int, Counts]:
    """Run one part, and its failed tests once more if they are few. Returns pytest's exit status and the outcome."""
    part = [*part, "-o", f"cache_dir={scratch}"]
    ended, counts = _run_pytest(part, scratch / "first.xml")
    # Failures of the collection have no module. pytest would run all tests instead of them.
    are_tests = not any(name.startswith(".") for name in counts.failed)
    if ended == _FAILED and are_tests and len(counts.failed) <= RERUN_AT_MOST:
        print("\nRunning the failed tests once more, one at a time.", flush=True)
        alone = ["-n", "0"] if "-n" in part else []
        failed_only = ["--last-failed", "--last-failed-no-failures=none"]
        again_ended, again = _run_pytest([*part, *alone, *failed_only], scratch / "again.xml")
        if again.passed + len(again.failed) == len(counts.failed):
            ended, counts.flaky = again_ended, [name for name in counts.failed if name not in again.failed]
            counts.failed = again.failed
            counts.passed += len(counts.flaky)
    return ended, counts


def _run_pytest(arguments: Sequence[str], report: Path) -> tuple[int, Counts]:
    counts = Counts()
    ended = _run([sys.executable, "-m", "pytest", f"--junit-xml={report}", *arguments])
    if report.exists():
        counts.add(report)
    elif ended:
        counts.failed.append(f"pytest {' '.join(arguments)} ended with {ended} and left no report")
        print(counts.failed[-1], flush=True)
    return ended, counts


def _run(command: Sequence[str]) -> int:
    with subprocess.Popen(command) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:  # pytest gets the signal too, and stops what it started
            process.wait()
            return _INTERRUPTED


def _print(counts: Counts) -> None:
    print(f"\n{'Skipped:' if counts.skipped else 'Nothing was skipped.'}")
    for reason, number in sorted(counts.skipped.items()):
        print(f"  {number:>4}  {reason}")
    for name in counts.flaky:
        print(f"Flaky: {name} failed, and passed when it ran alone.")
    flaky = f" ({len(counts.flaky)} flaky)" if counts.flaky else ""
    print(f"{counts.passed} passed{flaky}, {len(counts.failed)} failed, {counts.skipped.total()} skipped", flush=True)


if __name__ == "__main__":
    sys.exit(main())

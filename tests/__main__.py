"""Runs every test and prints one summary: `python -m tests`. The parts differ in how many processes they use."""

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
#: The exit status that a shell gives after Ctrl-C.
_INTERRUPTED = 130


@dataclass(slots=True)
class Counts:
    """The outcome of tests. An error outside a test counts as a failure. `skipped` counts by reason."""

    passed: int = 0
    failed: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def add(self, report: Path) -> None:
        """Add a JUnit report."""
        for suite in ET.parse(report).getroot().iter("testsuite"):
            reasons = [found.get("message") or "no reason" for found in suite.iter("skipped")]
            failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
            self.skipped.update(reasons)
            self.failed += failed
            self.passed += int(suite.get("tests", 0)) - failed - len(reasons)


def main(parts: Sequence[Sequence[str]] = PARTS) -> int:
    """Run all parts, whatever the outcome of each, and print the summary. Returns the first failed part's status."""
    counts, status = Counts(), 0
    with tempfile.TemporaryDirectory() as scratch:
        for number, part in enumerate(parts):
            report = Path(scratch) / f"{number}.xml"
            ended = _run([sys.executable, "-m", "pytest", f"--junit-xml={report}", *part])
            status = status or ended
            if report.exists():
                counts.add(report)
            elif ended:
                print(f"pytest {' '.join(part)} ended with {ended} and left no report", flush=True)
                counts.failed += 1
            if ended == _INTERRUPTED:
                break
    _print(counts)
    return status or int(counts.failed > 0)


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
    print(f"{counts.passed} passed, {counts.failed} failed, {counts.skipped.total()} skipped", flush=True)


if __name__ == "__main__":
    sys.exit(main())

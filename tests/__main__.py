"""Runs tests and prints a summary: `python -m tests` runs every one, `python -m tests fast` those that end soon.

If few tests fail, they run once more, one at a time. The summary names those that pass then as flaky, with the error of
their first run: other tests or a busy machine made them fail, and they need a repair. With CI set, more than
`FLAKY_AT_MOST` fail the run.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

#: Arguments of pytest. Modules that mostly wait come first; compute-bound modules then fill the gaps. Five processes
#: keep two cores busy, because those of `tests/chaos` wait half of their time.
ALL = (
    *("-n", "5", "--dist", "loadfile", "--no-loadscope-reorder"),
    *("tests/chaos", "tests/integration", "tests/acceptance", "tests/browser", "tests/contract", "tests/unit"),
)
#: Beginnings of the ids of contract and unit tests that take seconds of processor time, or wait.
SLOW = (
    "tests/contract/test_embedders.py::test_a_request_leaves_no_thread_at_work",
    "tests/contract/test_embedders.py::test_embedding_works_in_forked_children_after_the_parents_imports",
    "tests/contract/test_fork.py",
    "tests/contract/test_hostile.py",
    "tests/contract/test_hostile_containers.py",
    "tests/contract/test_lance_compaction.py",
    "tests/contract/test_lance_damage.py",
    "tests/contract/test_lance_killed.py",
    "tests/contract/test_ocr.py",
    "tests/contract/test_provider_clients.py::test_both_clients_read_an_answer_alike",
    "tests/contract/test_rules.py",
    "tests/contract/test_s3_ranges.py",
    "tests/unit/api/cli/test_agents.py",
    "tests/unit/api/indexers/test_folder_estimate.py::test_the_range_holds_the_text_of_files_that_were_not_read",
    "tests/unit/api/models/test_models.py",
    "tests/unit/api/routes/search/test_usual_queries.py",
    "tests/unit/test_all_tests.py",
    "tests/unit/test_bench_search.py::test_a_function_is_a_file_without_the_sentence_that_asks_for_it",
    "tests/unit/test_constant_patterns.py",
    "tests/unit/test_docs.py::test_the_site_builds_without_a_warning",
    "tests/unit/test_imports.py",
    "tests/unit/test_linear_patterns.py",
    "tests/unit/test_quantifiers.py",
    "tests/unit/test_slow_inputs.py",
    "tests/unit/worker/chunk/test_code.py",
    "tests/unit/worker/chunk/test_lines.py",
    "tests/unit/worker/chunk/test_quality.py",
    "tests/unit/worker/chunk/test_yaml_toml.py",
    "tests/unit/worker/embed/local/test_minilm.py",
    "tests/unit/worker/index/test_prepare.py",
    "tests/unit/worker/machine/test_logs.py::test_litellms_warnings_are_not_logged",
    "tests/unit/worker/parse/mail/test_slow_mail.py",
    "tests/unit/worker/parse/office/test_damaged_parts.py",
    "tests/unit/worker/parse/text/test_text.py::test_three_megabytes_take_bounded_memory",
    "tests/unit/worker/reading/test_blobs.py::test_hostile_texts_take_linear_time",
    "tests/unit/worker/sources/test_local.py::test_fifty_thousand_files_in_one_directory_are_listed_once",
    "tests/unit/worker/tree/test_fit.py",
)
#: Arguments of pytest for a look while one works: no test that starts a service, nor one that computes for long.
FAST = (
    *("-n", "2", "--dist", "loadfile", "tests/contract", "tests/unit"),
    *(f"--{'deselect' if '::' in begin else 'ignore'}={begin}" for begin in SLOW),
)
#: The most failed tests that run once more.
RERUN_AT_MOST = 8
#: The most flaky tests with which CI passes. Some tests kill processes, and a busy machine may starve one of them.
FLAKY_AT_MOST = 3
#: The exit status of pytest when tests failed.
_FAILED = 1
#: The exit status that a shell gives after Ctrl-C.
_INTERRUPTED = 130


@dataclass(slots=True)
class Counts:
    """The outcome of tests. An error outside a test counts as a failure. `skipped` counts by reason."""

    passed: int = 0
    failed: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    flaky: list[str] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)

    def add(self, report: Path) -> None:
        """Add a JUnit report."""
        for suite in ET.parse(report).getroot().iter("testsuite"):
            reasons = [found.get("message") or "no reason" for found in suite.iter("skipped")]
            errors = [
                (f"{case.get('classname')}.{case.get('name')}", (found.get("message") or "no message").splitlines()[0])
                for case in suite.iter("testcase")
                for found in case
                if found.tag in {"failure", "error"}
            ]
            failed = [name for name, _ in errors]
            self.skipped.update(reasons)
            self.failed += failed
            self.errors |= dict(errors)
            self.passed += int(suite.get("tests", 0)) - len(failed) - len(reasons)


def main(arguments: Sequence[str] = ALL) -> int:
    """Run pytest, and the failed tests once more if they are few. Prints the summary, and returns the exit status."""
    with tempfile.TemporaryDirectory() as scratch:
        ended, counts = _run_all([*arguments, "-o", f"cache_dir={scratch}"], Path(scratch))
    _print(counts)
    is_refused = bool(counts.failed) or (len(counts.flaky) > FLAKY_AT_MOST and bool(os.environ.get("CI")))
    return ended or int(is_refused)


def _run_all(arguments: Sequence[str], scratch: Path) -> tuple[int, Counts]:
    ended, counts = _run_pytest(arguments, scratch / "first.xml")
    # Failures of the collection have no module. pytest would run all tests instead of them.
    are_tests = not any(name.startswith(".") for name in counts.failed)
    if ended == _FAILED and are_tests and len(counts.failed) <= RERUN_AT_MOST:
        print("\nRunning the failed tests once more, one at a time.", flush=True)
        alone = ["-n", "0"] if "-n" in arguments else []
        failed_only = ["--last-failed", "--last-failed-no-failures=none"]
        again_ended, again = _run_pytest([*arguments, *alone, *failed_only], scratch / "again.xml")
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
        print(f"Flaky: {name} failed, and passed when it ran alone. Its first error: {counts.errors[name]}")
    flaky = f" ({len(counts.flaky)} flaky)" if counts.flaky else ""
    print(f"{counts.passed} passed{flaky}, {len(counts.failed)} failed, {counts.skipped.total()} skipped", flush=True)


if __name__ == "__main__":
    sys.exit(main({(): ALL, ("fast",): FAST}[tuple(sys.argv[1:])]))

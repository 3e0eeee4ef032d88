"""Checks that commit subjects are short enough to be read in a list: `python -m tests.commit_subjects`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: The last commit with a longer subject. A shallow clone may lack it, and then has later commits only.
SINCE = "8116530f4c905768fbd3a720daff3b39b3ac737a"
MAX_CHARS = 72


def long_subjects(repository: Path, since: str = SINCE) -> list[str]:
    """Commits since another one, without merges, whose subject is too long: their short ids and subjects."""
    is_there = _git(repository, "cat-file", "-e", f"{since}^{{commit}}").returncode == 0
    listed = _git(repository, "log", "--no-merges", "--format=%h %s", f"{since}..HEAD" if is_there else "HEAD")
    listed.check_returncode()
    return [line for line in listed.stdout.splitlines() if len(line.partition(" ")[2]) > MAX_CHARS]


def main(repository: Path = ROOT) -> str | None:
    """An error for `sys.exit`, if a subject is too long. A copy without its history has none."""
    if not (repository / ".git").exists():
        return None
    found = long_subjects(repository)
    listed = "\n".join(found)
    return f"Shorten these commit subjects to {MAX_CHARS} characters:\n{listed}" if found else None


def _git(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # a checkout in a container often belongs to another user
    command = ["git", "-c", "safe.directory=*", "-C", str(repository), *arguments]
    return subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", check=False)


if __name__ == "__main__":
    sys.exit(main())

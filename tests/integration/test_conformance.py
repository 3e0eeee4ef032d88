"""The conformance suite of the Model Context Protocol, against the running service."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.service import Service

HERE = Path(__file__).parent / "conformance"


@pytest.mark.skipif(shutil.which("npm") is None, reason="install Node.js to run")
def test_every_scenario_that_applies_passes(running: Service, tmp_path: Path) -> None:
    """The others are in `conformance/others.yml`."""
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / name, tmp_path)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"]
    if subprocess.run(command, check=False, cwd=tmp_path).returncode:
        pytest.skip("run where the registry of npm can be reached")
    url = str(running.client.base_url.join("/mcp"))
    suite = ["node_modules/.bin/conformance", "server", "--url", url, "--suite", "all"]
    suite += ["--expected-failures", str(HERE / "others.yml")]
    ran = subprocess.run(suite, check=False, capture_output=True, text=True, cwd=tmp_path)
    assert ran.returncode == 0, ran.stdout

"""What a service imports to ask providers, in all its processes."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.stack.record import ROOT
from tests.fakes.embeddings import EmbeddingsFake
from tests.service import NewService


@pytest.mark.timeout(200)
@pytest.mark.parametrize("provider", ["openai", "hosted_vllm"])
def test_only_models_that_need_litellm_import_it(new_service: NewService, tmp_path: Path, provider: str) -> None:
    imports, folder = tmp_path / "imports", tmp_path / "folder"
    folder.mkdir()
    (folder / "a.md").write_text("How to renew a certificate.")
    with EmbeddingsFake() as fake:
        env = {
            **fake.env,
            "DEFAULT_EMBEDDING_MODEL": f"{provider}/m",
            "ALLOWED_MODELS": f"{provider}/* local/*",
            "LOCAL_SOURCE_ROOTS": str(folder),
            "PYTHONPATH": str(ROOT / "tests" / "fakes" / "imports"),
            "IMPORTS": str(imports),
        }
        with new_service(**env) as here:
            tool = here.local_tool(folder)
            assert here.wait(tool)["indexed_files"] == 1
            assert here.query(tool, "certificates", mode="vector")
            listed = here.client.get("/api/models", params={"check": True}).json()["items"]
            assert next(each["check"]["ok"] for each in listed if each["default"])
        assert len(fake.audit.requests) >= 3
    noted = set(imports.read_text().split())
    assert {"api.main", "worker.tasks.index"} <= noted
    assert noted & {"litellm", "openai"} == (set() if provider == "openai" else {"litellm", "openai"})

"""A store that others operate gets no readable word of a folder; an index changes its form without a gap."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

import pytest

from tests.fakes.embeddings import EmbeddingsFake
from tests.fakes.turbopuffer import FakeTurbopuffer
from tests.service import TOOLS, Service, another_api, eventually

KEY = "a key that only one process has"
FILES = {
    "Krankenblatt/Okkultationsbefund.md": "# Diagnosewahrscheinlichkeit\n\nThe patient Schr\u00f6derwegmann has "
    "hypercholesterolaemia and takes Atorvastatinkalzium every evening.\n",
    "Krankenblatt/laboratory.json": json.dumps({"Haemoglobinwert": {"Referenzbereich": ["thirteenpointseven gram"]}}),
    "software/perfusionpump.py": "class PerfusionController:\n    def calibrateOcclusion(self) -> str:\n"
    '        return "pressurethreshold"\n',
}
#: Long words: a short one may stand in a vector by chance.
WORDS = {word for text in (*FILES, *FILES.values()) for word in re.findall(r"\w{9,}", text)} | {
    "bradycardiaquery",
    "thrombolysis question",
}


def forms(word: str) -> Iterator[bytes]:
    """A word as bytes in the spellings and bases in which it may be sent."""
    for spelled in {word, word.lower(), word.upper(), word.lower()[:-1], word[::-1]}:
        raw = spelled.encode()
        yield from (raw, raw.hex().encode(), spelled.encode("utf-16-le"), quote(spelled).encode())
        yield json.dumps(spelled).strip('"').encode()
        for shift in range(3):
            whole = base64.b64encode(b"\0" * shift + raw)
            # without the characters that depend on what stands around
            yield whole[4 if shift else 0 : len(whole) - 4]
        for digest in (hashlib.sha256, hashlib.sha1, hashlib.md5, hashlib.blake2b):
            made = digest(raw).digest()
            yield made.hex()[:16].encode()
            yield base64.b64encode(made)[:12]


def readable(received: list[bytes]) -> set[str]:
    everything = b"\n".join(received)
    folded = everything.lower()
    return {word for word in WORDS if any(form in everything or form.lower() in folded for form in forms(word))}


@pytest.fixture
def folder(root: Path) -> Path:
    made = root / f"blind-{uuid4().hex[:8]}"
    for path, text in FILES.items():
        (made / path).parent.mkdir(parents=True, exist_ok=True)
        (made / path).write_text(text)
    return made


@pytest.fixture
def received(store: FakeTurbopuffer) -> Iterator[list[bytes]]:
    store.received = []
    yield store.received
    store.received = None


def ask_everything(running: Service, tool: str) -> None:
    """Find each file in each way that the store answers."""
    note, values, code = FILES
    for query, filters, path in (
        ("hypercholesterolaemia", {}, note),
        ("Schr\u00f6derwegmann", {"path": "Krankenblatt/**"}, note),
        ('"takes Atorvastatinkalzium"', {"path": "*.md"}, note),
        ("thirteenpointseven", {"json_pointer": "/Haemoglobinwert"}, values),
        ("Referenzbereich", {"types": ["json"]}, values),
        ("pressurethreshold", {"symbols": ["PerfusionController"]}, code),
        ("pressurethreshold", {"scope": "PerfusionController", "languages": ["python"]}, code),
    ):
        for mode in ("keyword", "hybrid"):
            hits = running.query(tool, query, mode=mode, filters=filters)
            assert hits, (query, mode)
            assert hits[0]["file_path"] == path
    for query in ("bradycardiaquery", "thrombolysis question"):
        assert running.query(tool, query, mode="keyword") == []


def test_the_store_receives_no_word_of_a_folder(running: Service, folder: Path, received: list[bytes]) -> None:
    tool = running.local_tool(folder)
    running.wait(tool)
    ask_everything(running, tool)
    (folder / "software").rename(folder / "Instrumentensoftware")
    running.post(f"{TOOLS}/{tool}/reindex", {})
    running.wait(tool)
    assert running.query(tool, "calibrateOcclusion")[0]["file_path"] == "Instrumentensoftware/perfusionpump.py"
    assert received
    assert readable(received) == set()
    hashes = running.rows(
        "SELECT content_hash FROM chunk c JOIN search_tool s ON s.index_id = c.index_id WHERE s.id = %s", tool
    )
    assert not [hash_ for (hash_,) in hashes if hash_.removeprefix("sha256:").encode() in b"".join(received)]


def test_a_full_run_changes_the_form_without_a_gap_and_pays_nothing(
    running: Service, folder: Path, received: list[bytes], provider: EmbeddingsFake, store: FakeTurbopuffer
) -> None:
    with another_api(running, VECTOR_STORE_TEXT="plain") as plain:
        tool = plain.local_tool(folder)
        shared = plain.local_tool(folder)
        before = running.wait(tool)
        ask_everything(running, tool)
        # the search for words finds what is there
        assert readable(received) >= {"hypercholesterolaemia", "PerfusionController", "Okkultationsbefund"}
        paid = len(provider.audit.requests)
        (index,) = {plain.get(f"{TOOLS}/{each}")["index"]["index_id"] for each in (tool, shared)}

        # an incremental run, and one over some paths, keep the form
        for body in ({}, {"full": True, "paths": ["software"]}):
            running.post(f"{TOOLS}/{tool}/reindex", body)
            running.wait(tool)
        assert running.get(f"{TOOLS}/{tool}")["index"]["index_id"] == index

        received.clear()
        rewrite(running, tool, index)
        after = running.get(f"{TOOLS}/{shared}")
        assert after["index"]["index_id"] == running.get(f"{TOOLS}/{tool}")["index"]["index_id"]
        ask_everything(running, tool)
        assert len(provider.audit.requests) == paid
        assert readable([each for each in received if after["namespace"].encode() in each.partition(b"\n")[0]]) == set()
        eventually(lambda: before["namespace"] not in store.namespaces, 60, running.logs)

        # and back
        rewrite(plain, tool, after["index"]["index_id"])
        ask_everything(running, tool)
        assert len(provider.audit.requests) == paid


def rewrite(running: Service, tool: str, index: str) -> None:
    """Ask for a full run until the tool has another index; it answers all the while."""
    running.post(f"{TOOLS}/{tool}/reindex", {"full": True})

    def switched() -> bool:
        hits = running.query(tool, "hypercholesterolaemia", mode="keyword")
        assert [hit["file_path"] for hit in hits] == ["Krankenblatt/Okkultationsbefund.md"]
        return str(running.get(f"{TOOLS}/{tool}")["index"]["index_id"]) != index

    eventually(switched, 60, running.logs)


def test_a_lost_key_is_a_clear_error_and_a_full_run_mends_it(
    running: Service, folder: Path, provider: EmbeddingsFake
) -> None:
    with another_api(running, BLIND_TOKEN_KEY=KEY) as keyed:
        tool = keyed.local_tool(folder)
        # its workers do not have the key
        status = running.wait(tool, until="error")
        assert "neither BLIND_TOKEN_KEY nor the one in Postgres" in status["error"]
        assert keyed.client.post(f"{TOOLS}/{tool}/query", json={"query": "anything"}).status_code == 200
    answer = running.client.post(f"{TOOLS}/{tool}/query", json={"query": "anything"})
    assert (answer.status_code, answer.json()["code"]) == (502, "text_key_missing")
    running.post(f"{TOOLS}/{tool}/reindex", {"full": True})
    eventually(lambda: running.get(f"{TOOLS}/{tool}")["updating"] is None, 60, running.logs)
    ask_everything(running, tool)

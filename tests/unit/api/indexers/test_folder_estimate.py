"""The arithmetic of an estimate, over a source that needs no disk."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from api.indexers import folder_estimate as estimates
from api.indexers.folder_estimate import PricedModel, estimate
from schemas.content.document import FileContent, ListingPage, SourceEntry
from schemas.content.source import ChunkSettings, EmbedderProfile, Granularity
from schemas.tool import IndexSettings
from tests.bench.search.sources import PURELIB
from tests.helpers import HELPERS
from tests.parsing import parse
from worker.chunk import chunk
from worker.chunk.context import with_stem
from worker.formats.by_name import embedded_stem
from worker.parse import Limits
from worker.tokens.tokenizers import cl100k

SETTINGS = IndexSettings(
    embedder=EmbedderProfile(model="m", dimensions=4), chunks=ChunkSettings(), max_file_bytes=1_000_000
)


class Texts:
    """A source over texts, in pages of ten."""

    def __init__(self, texts: dict[str, str]) -> None:
        self._texts = texts

    def check(self) -> None:
        pass

    def list(self, cursor: str | None) -> ListingPage:
        start = int(cursor or 0)
        names = list(self._texts)[start : start + 10]
        sizes = {name: len(self._texts[name].encode()) for name in names}
        entries = [SourceEntry(name.encode(), name, f"/{name}", None, sizes[name], "1") for name in names]
        return ListingPage(entries, str(start + 10) if start + 10 < len(self._texts) else None)

    def narrow(self, _keys: Sequence[bytes]) -> None:
        """List everything."""

    def near(self) -> None: ...

    def leaves_out(self, key: bytes) -> bool:
        return False

    def read(self, key: bytes, limit: int, _listed: str = "", /) -> FileContent:
        return FileContent(self._texts[key.decode()].encode(), "1")


def of(texts: dict[str, str], settings: IndexSettings = SETTINGS, *, price: float | None = 2.0, **limits: int) -> Any:
    model = PricedModel("m", **({"max_inputs": 96, "max_request_tokens": 1000} | limits), price=price)
    source, types = Texts(texts), frozenset[str]()
    return estimate(source, settings, types, lambda _: set(), helpers=HELPERS, tokenizer=cl100k(), model=model)


def mixed(seed: int) -> dict[str, str]:
    random = Random(seed)
    kinds = ("word " * 5, "{[(;)]}" * 4, "groß ")
    return {f"{n}.txt": random.choice(kinds) * random.randint(1, 40) for n in range(600)}


def test_the_range_holds_the_text_of_files_that_were_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    # some of a third of the files are read in whole, and others in part
    monkeypatch.setattr(estimates, "SAMPLE_CHARACTERS", estimates.SAMPLE_CHARACTERS // 10)
    inside = 0
    for seed in range(20):
        texts = mixed(seed)
        true = sum(len(cl100k().starts(text)) for text in texts.values())
        tokens = of(texts).tokens
        assert tokens.high - tokens.low < true
        inside += tokens.low <= true <= tokens.high
    assert inside >= 19


def test_cost_and_requests_follow_the_tokens() -> None:
    texts = {f"{n}.txt": "word " * 1000 for n in range(10)}
    answer = of(texts)
    assert answer.cost.expected == pytest.approx(answer.tokens.expected * 2e-6, abs=1e-6)
    assert answer.requests.expected == -(-answer.tokens.expected // 1000)
    assert of(texts, price=None).cost is None
    # a request of one text each
    assert of(texts, max_inputs=1, max_request_tokens=1_000_000).requests.low >= 10
    assert of({}).tokens.high == of({}).requests.high == 0


def test_tokens_are_those_of_the_text_as_it_is_read() -> None:
    picture = base64.b64encode(Random(1).randbytes(30_000)).decode()
    written = {"a.json": f'{{"name": "Schr\\u00f6der", "picture": "data:image/png;base64,{picture}"}}'}
    read = '{"name": "Schröder", "picture": "[base64, 30 kB, image/png]"}'
    assert of(written).tokens.expected == pytest.approx(len(cl100k().starts(read)), rel=0.15)


def test_a_listing_that_takes_too_long_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {f"{n}.txt": "some words" for n in range(30)}
    assert of(texts).complete
    monkeypatch.setattr(estimates, "LIST_SECONDS", 0.0)
    cut = of(texts)
    assert not cut.complete
    assert any("Listing took longer" in note for note in cut.notes)


def test_each_granularity_has_its_chunks_vectors_and_cost() -> None:
    texts = {f"{n}.txt": "word " * 5000 for n in range(10)}
    answer = of(texts)
    whole, packed = answer.by_granularity["definition"], answer.by_granularity["packed"]
    assert (whole.tokens, whole.requests, whole.cost) == (answer.tokens, answer.requests, answer.cost)
    assert packed.chunks.expected < whole.chunks.expected
    for cut in (whole, packed):
        assert cut.chunks.low <= cut.chunks.expected <= cut.chunks.high
        assert cut.vector_bytes.expected == cut.chunks.expected * SETTINGS.embedder.dimensions * 4
        # chunks are never longer than the maximum
        assert cut.chunks.low * SETTINGS.chunks.size >= cut.tokens.low
    # a model that takes less than the size gets more chunks
    small = SETTINGS.model_copy(update={"embedder": SETTINGS.embedder.model_copy(update={"max_input_tokens": 128})})
    assert of(texts, small).by_granularity["packed"].chunks.expected == pytest.approx(
        packed.chunks.expected * SETTINGS.chunks.size / 128, rel=0.01
    )
    # a file has a chunk at least
    assert {cut.chunks.low for cut in of({f"{n}.txt": "word" for n in range(10)}).by_granularity.values()} == {10}
    assert {cut.chunks.high for cut in of({}).by_granularity.values()} == {0}


def test_sidecars_are_skipped_if_the_tool_takes_metadata_from_them() -> None:
    texts = {"a.md": "word " * 50, "a.md.meta.json": '{"team": "red"}', ".meta.json": "{}"}
    plain, with_sidecars = of(texts), of(texts, SETTINGS.model_copy(update={"sidecars": True}))
    assert (plain.skipped, plain.sampled_files) == ({}, 3)
    assert (with_sidecars.skipped, with_sidecars.sampled_files) == ({"sidecar": 1}, 2)
    assert with_sidecars.tokens.expected < plain.tokens.expected


def test_names_that_are_embedded_with_code_are_counted() -> None:
    stems = SETTINGS.model_copy(update={"file_stems": True})
    text = "def tide():\n    return 1\n" * 200
    for name, is_counted in (("moon/tidal_forces.py", True), ("moon/tidal_forces.txt", False), ("index.js", False)):
        before, after = of({name: text}).tokens, of({name: text}, stems).tokens
        assert (after.expected > before.expected, after.high > before.high) == (is_counted, is_counted), name
        assert after.expected <= before.expected * 1.1


def test_each_chunk_repeats_the_name_and_two_line_ends() -> None:
    stems = SETTINGS.model_copy(update={"file_stems": True})
    text = "def tide():\n    return 1\n" * 20_000
    long = "tidal_forces_of_the_moon"
    added = {}
    for stem in ("tide", long):
        before, after = of({f"{stem}.py": text}).tokens, of({f"{stem}.py": text}, stems).tokens
        added[stem] = after.expected - before.expected
        # chunks may be much shorter than usual
        assert after.high - before.high > 2 * added[stem]
    tokens = {stem: len(cl100k().starts(stem)) + 2 for stem in added}
    assert added[long] / added["tide"] == pytest.approx(tokens[long] / tokens["tide"], rel=0.05)


@pytest.mark.parametrize("package", ["click", "structlog"])
@pytest.mark.parametrize("max_tokens", [254, 8191])
@pytest.mark.parametrize("granularity", ["definition", "packed"])
def test_an_estimate_of_code_counts_the_headers_that_chunks_repeat(
    package: str, max_tokens: int, granularity: Granularity
) -> None:
    paths = sorted((PURELIB / package).rglob("*.py"))
    texts = {str(path.relative_to(PURELIB)): path.read_text() for path in paths if path.stat().st_size}
    embedder = SETTINGS.embedder.model_copy(update={"max_input_tokens": max_tokens})
    chunks = ChunkSettings(granularity=granularity)
    settings = SETTINGS.model_copy(update={"embedder": embedder, "chunks": chunks, "file_stems": True})
    cut = [
        each
        for path, text in texts.items()
        for each in with_stem(
            chunk(parse(path.rsplit("/", 1)[-1], text.encode(), Limits()), chunks, cl100k(), max_tokens),
            embedded_stem(path, "code", file_stems=True),
            cl100k(),
            max_tokens,
        )
    ]
    answer = of(texts, settings).by_granularity[granularity]
    tokens = sum(each.tokens for each in cut)
    assert answer.tokens.expected == pytest.approx(tokens, rel=0.12)
    assert answer.tokens.low <= tokens <= answer.tokens.high
    assert answer.chunks.low <= len(cut) <= answer.chunks.high

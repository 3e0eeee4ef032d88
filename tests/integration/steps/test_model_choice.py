"""Where nothing names a model, the languages of a folder decide between the local ones."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from docx import Document as WordDocument

from api.indexers import model_choice
from api.routes.tools import wanted_index
from schemas.content.document import SourceEntry
from schemas.content.source import LocalSource
from schemas.errors import ModelRefused, SourceUnavailable
from schemas.tool import IndexSettings, ToolConfig
from tests import pdfs
from worker.embed.local import e5, minilm
from worker.embed.local.offered import MODELS
from worker.resources import Resources
from worker.sandbox.texts import Sample
from worker.settings import BY_LANGUAGE, Settings
from worker.state.index import tools
from worker.state.index.tools import NewIndex

ENGLISH = "The defence of the team gave up only a few points, and it was ranked first in the league that year.\n"
GERMAN = "Die Verteidigung der Mannschaft ließ nur wenige Punkte zu und lag in diesem Jahr in der Liga vorn.\n"
OTHERS = {
    "de": GERMAN,
    "es": "La defensa del equipo cedió muy pocos puntos y fue la mejor de la liga durante todo ese año.\n",
    "ar": "استسلم دفاع الفريق عن عدد قليل من النقاط فقط وكان الأول في الدوري في ذلك العام\n",
    "ru": "Защита команды уступила совсем немного очков и была первой в лиге в том году.\n",
    "zh": "这支球队的防守只丢了很少的分并且在那一年的联赛中排名第一\n",
    "ja": "このチームの守備はわずかな失点しか許さず、その年のリーグで一位になりました\n",
    "ko": "이 팀의 수비는 아주 적은 점수만 내주었고 그 해 리그에서 일위를 차지했습니다\n",
    "th": "แนวรับของทีมเสียแต้มเพียงเล็กน้อยและเป็นอันดับหนึ่งของลีกในปีนั้น\n",
    "hi": "टीम के बचाव ने बहुत कम अंक दिए और उस वर्ष लीग में पहले स्थान पर रही\n",
}
CODE = "def parse_header(request):\n    # reads the header\n    return request.headers[KEY]\n"


@pytest.fixture
def choosing(resources: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resources:
    settings = Settings(default_embedding_model=BY_LANGUAGE)
    assert (settings.default_embedding_model, Settings().model_by_language) == (minilm.MODEL, False)
    kept = resources.settings.model_dump(exclude={"default_embedding_model", "embedding_dimensions", "allowed_models"})
    changed = kept | {"local_source_roots": [tmp_path]}
    monkeypatch.setattr(resources, "settings", settings.model_copy(update=changed))
    return resources


def filled(place: Path, **files: str) -> LocalSource:
    place.mkdir()
    for name, text in files.items():
        (place / name.replace("_", ".")).write_text(text)
    return LocalSource(kind="local", path=str(place))


def wanted(resources: Resources, source: LocalSource, **config: Any) -> NewIndex:
    return wanted_index("languages", source, ToolConfig(**config), resources)[0]


def chosen(resources: Resources, source: LocalSource, **config: Any) -> tuple[str, str | None]:
    settings: IndexSettings = wanted(resources, source, **config).settings
    return settings.embedder.model, settings.model_reason


@pytest.mark.parametrize("language", OTHERS)
def test_a_folder_in_another_language_gets_the_model_that_reads_it(
    choosing: Resources, tmp_path: Path, language: str
) -> None:
    model, reason = chosen(choosing, filled(tmp_path / "f", a_md=OTHERS[language] * 3, b_py=CODE * 20))
    assert (model, (reason or "")[:5]) == (e5.MODEL, "100% ")


@pytest.mark.parametrize(
    "files",
    [
        {"a_md": ENGLISH, "b_txt": ENGLISH},
        {"a_md": ENGLISH * 4, "b_md": GERMAN},
        {"a_py": CODE},
        {"a_py": f"# {GERMAN}{CODE}"},
        {"a_txt": "12 34 56"},
        {},
    ],
)
def test_english_code_and_nothing_stay_with_the_default(
    choosing: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str]
) -> None:
    # 100 MB that a folder in English does not need
    unread = replace(MODELS[e5.MODEL], check=lambda: pytest.fail("the other model was read"))
    monkeypatch.setitem(MODELS, e5.MODEL, unread)
    assert chosen(choosing, filled(tmp_path / "f", **files)) == (minilm.MODEL, None)


def test_a_mixed_folder_gets_the_model_that_reads_all_of_it(choosing: Resources, tmp_path: Path) -> None:
    model, reason = chosen(choosing, filled(tmp_path / "f", a_md=ENGLISH, b_md=GERMAN))
    assert (model, reason) == (e5.MODEL, "50% of the text in a sample of its files is in other languages than English.")


def test_whatever_is_named_decides(choosing: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    german = filled(tmp_path / "f", a_md=GERMAN)
    assert chosen(choosing, german, embedding_model=minilm.MODEL) == (minilm.MODEL, None)
    assert chosen(choosing, german, exclude=["*.md"]) == (minilm.MODEL, None)
    allowed = choosing.settings.model_copy(update={"allowed_models": [minilm.MODEL]})
    named = Settings(default_embedding_model=minilm.MODEL).model_copy(update=choosing.settings.model_dump())
    for settings in (allowed, named):
        with monkeypatch.context() as patch:
            patch.setattr(choosing, "settings", settings)
            assert chosen(choosing, german) == (minilm.MODEL, None)


def test_without_the_package_the_default_stays(
    choosing: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise ModelRefused("It is missing.")

    monkeypatch.setattr(choosing, "profile", lambda model, *_, **__: refuse() if model == e5.MODEL else None)
    source = filled(tmp_path / "f", a_md=GERMAN)
    assert model_choice.chosen_model(choosing, "languages", source, ToolConfig()) == (None, None)


def test_a_model_stays_when_the_language_changes_and_serves_the_next_tool(choosing: Resources, tmp_path: Path) -> None:
    source = filled(tmp_path / "f", a_md=GERMAN)
    first = wanted(choosing, source)
    tool_id, _ = tools.create(choosing.pool, first, name="", config=ToolConfig())
    (tmp_path / "f" / "a.md").write_text(ENGLISH)
    assert wanted(choosing, source).identity == first.identity
    assert chosen(choosing, source, chunk_size=128) == (e5.MODEL, first.settings.model_reason)
    # the same as one for which the model was named
    assert wanted(choosing, source, embedding_model=e5.MODEL).identity == first.identity
    tool = tools.get(choosing.pool, tool_id)
    assert tool is not None
    assert (tool.index.model, tool.index.model_reason) == (e5.MODEL, first.settings.model_reason)


def test_a_folder_that_cannot_be_read_gets_the_default(
    choosing: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = filled(tmp_path / "f", a_md=GERMAN)

    def away(*_: object) -> None:
        raise SourceUnavailable("The folder is away.")

    for place, name in ((Resources, "source"), (model_choice, "_sampled"), (model_choice, "_text")):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, away)
            assert model_choice.chosen_model(choosing, "languages", source, ToolConfig()) == (None, None)


def test_files_that_are_no_text_say_nothing(choosing: Resources, tmp_path: Path) -> None:
    source = filled(tmp_path / "f", a_md=GERMAN, c_txt="")
    for number in range(9):
        (tmp_path / "f" / f"b{number}.txt").write_bytes(b"\0\xff\xfe\x01" * 99)
    assert chosen(choosing, source)[0] == e5.MODEL


def test_no_further_file_is_read_once_the_time_is_over(
    choosing: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = filled(tmp_path / "f", **{f"a{number}_md": GERMAN for number in range(20)})
    read: list[object] = []

    def slow(_source: object, _helpers: object, entry: object, _deadline: object) -> str:
        read.append(entry)
        time.sleep(0.2)
        return GERMAN

    monkeypatch.setattr(model_choice, "_text", slow)
    monkeypatch.setattr(model_choice, "SAMPLE_SECONDS", 0.3)
    assert chosen(choosing, source)[0] == e5.MODEL
    assert 1 <= len(read) < 20


def test_many_files_are_sampled_from_all_of_the_listing(choosing: Resources, tmp_path: Path) -> None:
    files = {f"a{number:03}_md": ENGLISH for number in range(200)} | {
        f"b{number:03}_md": GERMAN for number in range(200)
    }
    model, reason = chosen(choosing, filled(tmp_path / "f", **files))
    assert (model, (reason or "")[:3]) == (e5.MODEL, "50%")


def pdf_of(text: str) -> bytes:
    words = text.split()
    return pdfs.drawn([pdfs.paragraph(740, [" ".join(words[at : at + 9]) for at in range(0, len(words), 9)])])


def docx_of(text: str) -> bytes:
    document, saved = WordDocument(), BytesIO()
    document.add_paragraph(text)
    document.save(saved)
    return saved.getvalue()


@pytest.mark.parametrize("write", [pdf_of, docx_of])
def test_a_folder_of_documents_is_sampled(
    choosing: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[str], bytes]
) -> None:
    monkeypatch.setattr(model_choice, "SAMPLE_SECONDS", 60.0)
    name = f"b.{write.__name__.removesuffix('_of')}"
    for text, model in ((GERMAN * 3, e5.MODEL), (ENGLISH * 3, minilm.MODEL)):
        place = tmp_path / model.partition("/")[2]
        source = filled(place, a_txt=ENGLISH)
        (place / name).write_bytes(write(text))
        assert chosen(choosing, source)[0] == model


def test_a_document_may_take_only_a_part_of_the_time_left(
    choosing: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[float] = []

    def sampled(*_: object, document_seconds: float, **__: object) -> Sample:
        given.append(document_seconds)
        return Sample(ENGLISH, len(ENGLISH), "pdf")

    monkeypatch.setattr(model_choice, "sample_of", sampled)
    monkeypatch.setattr(model_choice, "SAMPLE_SECONDS", 800.0)
    chosen(choosing, filled(tmp_path / "f", a_pdf="%PDF", b_pdf="%PDF"))
    assert [round(seconds / 10) for seconds in given] == [10, 10]


def test_texts_are_read_before_documents_and_large_documents_not_at_all(
    choosing: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    def text_of(_source: object, _helpers: object, entry: SourceEntry, _deadline: object) -> str:
        read.append(entry.path)
        return ENGLISH

    monkeypatch.setattr(model_choice, "_text", text_of)
    source = filled(tmp_path / "f", c_md=ENGLISH)
    for name, size in (("a.pdf", model_choice.MAX_DOCUMENT_BYTES), ("b.pdf", model_choice.MAX_DOCUMENT_BYTES + 1)):
        with (tmp_path / "f" / name).open("wb") as file:
            file.truncate(size)
    for name, size in (("d.md", model_choice.MAX_BYTES), ("e.md", model_choice.MAX_BYTES + 1)):
        (tmp_path / "f" / name).write_text("a" * size)
    chosen(choosing, source)
    assert read == ["c.md", "d.md", "a.pdf"]

"""Messages to an operator when a setting is invalid or a server does not answer."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr
from dataclasses import dataclass
from pathlib import Path
from typing import get_type_hints

import pytest
from pydantic import Field

from api.cli import database
from api.cli.commands import run
from api.cli.invocation import ERROR, FOUND
from api.search.rank.rerank import RerankOptions
from docs import generate
from schemas.errors import Invalid
from worker.machine import logs
from worker.settings import REMOVED, SHARED_NAMES, TELLING_LENGTH, Settings
from worker.sources.kind import SourceOptions
from worker.state.address import PooledAddress
from worker.stores import StoreOptions

NOBODY = "postgresql://somebody:secret@127.0.0.1:1/none"
BAD = [
    ("API_PORT", "abc", "integer"),
    ("API_PORT", "99999", "less than or equal to 65535"),
    ("EMBEDDING_RPM", "0", "greater than or equal to 1"),
    ("LOG_LEVEL", "loud", "'DEBUG', 'INFO', 'WARNING' or 'ERROR'"),
    ("AUTH", "maybe", "'on' or 'off'"),
    ("VECTOR_STORE", "elsewhere", "'turbopuffer' or 'lancedb'"),
    ("LOCAL_SOURCE_ROOTS", "/srv:docs", "'docs' is relative"),
    ("LOCAL_SOURCE_ROOTS", "~/docs", "'~/docs' is relative"),
    ("OCR_LANGUAGES", "e!", "pattern"),
    ("DATABASE_URL", "host=here password=secret", "pattern"),
    ("REDIS_URL", "http://:secret@here", "pattern"),
    ("CELERY_BROKER_URL", "http://:secret@here", "pattern"),
]


def said(monkeypatch: pytest.MonkeyPatch, *command: str) -> str:
    """What the command prints to standard error before it ends."""
    monkeypatch.setattr(sys, "argv", ["foldex", *command])
    # the logs of this process, which later tests read
    monkeypatch.setattr(logs, "configure", lambda _: None)
    printed = io.StringIO()
    with redirect_stderr(printed), pytest.raises(SystemExit) as ended:
        run()
    assert ended.value.code == (ERROR if printed.getvalue() else FOUND)
    return printed.getvalue()


@pytest.mark.parametrize(("name", "value", "why"), BAD)
def test_a_bad_value_is_said_with_its_variable_and_what_it_takes(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, why: str
) -> None:
    monkeypatch.setenv(name, value)
    message = said(monkeypatch, "serve")
    assert message.startswith(f"Error: {name} ")
    assert why in message
    assert "secret" not in message


@pytest.mark.parametrize("level", ["debug", "Debug", "DEBUG"])
def test_the_log_level_is_known_in_any_case(monkeypatch: pytest.MonkeyPatch, level: str) -> None:
    monkeypatch.setenv("LOG_LEVEL", level)
    assert Settings().log_level == "DEBUG"


@pytest.mark.parametrize("value", ["openai/* voyage/v", "openai/*,voyage/v", " openai/* , voyage/v,"])
def test_allowed_models_are_separated_by_spaces_or_commas(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("ALLOWED_MODELS", value)
    assert Settings().allowed_models == ["openai/*", "voyage/v"]


@pytest.mark.parametrize("value", ["/srv/a:/srv/b", ":/srv/a::/srv/b:"])
def test_source_roots_are_separated_by_colons(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("LOCAL_SOURCE_ROOTS", value)
    assert Settings().local_source_roots == [Path("/srv/a"), Path("/srv/b")]


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("CHUNK_SIZE_TOKEN", "CHUNK_SIZE_TOKENS"),
        ("CHUNCK_SIZE_TOKENS", "CHUNK_SIZE_TOKENS"),
        ("CHUNKSIZE_TOKENS", "CHUNK_SIZE_TOKENS"),
        ("chunk_size_token", "CHUNK_SIZE_TOKENS"),
        ("LOCAL_SOURCE_ROOT", "LOCAL_SOURCE_ROOTS"),
        ("VECTOR_STROE", "VECTOR_STORE"),
        ("KEYWORD_INDES", "KEYWORD_INDEX"),
        ("FOLDEX_HOM", "FOLDEX_HOME"),
        ("FOLDEX_MAX_TOOLS", "MAX_TOOLS"),
        ("FOLDEX_database_url", "DATABASE_URL"),
        # short names, and those that other programs use too, behind the prefix
        ("FOLDEX_MAX_TOOL", "MAX_TOOLS"),
        ("FOLDEX_LOGLEVEL", "LOG_LEVEL"),
        ("FOLDEX_API_PRT", "API_PORT"),
        ("FOLDEX_AUT", "AUTH"),
        ("FOLDEX_DATABASE_URI", "DATABASE_URL"),
    ],
)
def test_a_variable_that_is_nearly_a_setting_is_told_with_its_right_name(variable: str, meant: str) -> None:
    assert Settings.misspelt({variable: "1", "PATH": "/bin"}) == [
        f"The variable {variable} is not a setting and has no effect; did you mean {meant}?"
    ]
    assert Settings.misspelt({variable: "1", meant: ""}) != []
    # who sets both means another program
    assert Settings.misspelt({variable: "1", meant: "1"}) == []


#: Variables of shells, other programs and other services that resemble settings.
FOREIGN = """PATH HOME LANG LS_COLORS GREP_COLORS GREP_COLOR LOGLEVEL LOG_LEVELS DATABASE_URI DATABASE_URL2
    DATABASE_URL_TEST REDIS_URI REDIS_URLS REDIS_TLS_URL API_KEY API_HOSTS API_PORTS AUTHOR S3_BUCKETS S3_ENDPOINT_URI
    AWS_ENDPOINT_URL AWS_S3_ENDPOINT_URL CELERY_BROKER_URI FLOWER_PORTS FLOWER_BASIC_AUTH OPENAI_API_KEY MAX_PAGE
    EMBEDDING_MODEL EMBEDDING_API_BASE_URL RAG_EMBEDDING_BATCH_SIZE RERANKER_MODEL LLM_MODEL LLM_BASE_URL LLM_API_KEY2
    EMBEDDING_API_KEY_1 CHUNK_SIZE CHUNK_OVERLAP MAX_FILE_SIZE CELERY_WORKER_CONCURRENCY WEB_CONCURRENCY FOLDEX_URL
    FOLDEX_API_KEY FOLDEX_PROJECT FOLDEX_NEW_THING FOLDEX_COMPLETE _FOLDEX_COMPLETE DEBUGGER RANKINGS AUTHS AUT
    REDIS__URL LOG__LEVEL LOG_LEVLE ATUH LLM_TMP LLM_PRM LLM_RPMS LM_RPM
    API_POST API_HOT AI_PORT PI_PORT MAX_TOOLS2 S33_BUCKET
    LOGS_LEVEL S3_BUCKET_ R A _ MX_TOOLS RAKING API_COST RANKINGG1"""


def test_variables_of_others_and_settings_are_not_told() -> None:
    assert Settings.misspelt(dict.fromkeys(FOREIGN.split(), "1")) == []
    assert Settings.misspelt({name.upper(): "1" for name in Settings.model_fields}) == []


@pytest.mark.parametrize("name", sorted(REMOVED))
def test_a_removed_setting_that_is_still_set_is_named(name: str) -> None:
    assert name.lower() not in Settings.model_fields
    [sentence] = Settings.misspelt({name: "1"})
    assert sentence.startswith(f"The setting {name} has no effect any more")
    assert Settings.misspelt({name: ""}) == []


def slips(name: str) -> Iterator[str]:
    """All names with one letter missing or another one, or with two swapped."""
    for at in range(len(name)):
        yield name[:at] + name[at + 1 :]
        yield f"{name[:at]}Q{name[at + 1 :]}"
        yield name[:at] + name[at : at + 2][::-1] + name[at + 2 :]
        yield f"{name[:at]}Q{name[at:]}"


def test_a_slip_anywhere_in_a_long_name_is_told() -> None:
    names = {name.upper() for name in Settings.model_fields}
    telling = [name for name in names - SHARED_NAMES if len(name) >= TELLING_LENGTH]
    assert len(telling) > 40
    written = {slip for name in telling for slip in slips(name)} - names
    untold = [slip for slip in written if not Settings.misspelt({slip: "1"})]
    # some swapped letters of a short word look like two slips
    assert len(untold) < len(written) / 50, untold


def test_an_empty_variable_is_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOCAL_SOURCE_ROOTS", "API_PORT", "S3_BUCKET"):
        monkeypatch.setenv(name, "")
    settings = Settings()
    assert (settings.local_source_roots, settings.api_port, settings.s3_bucket) == ([], 8_000, None)


def test_there_are_few_settings() -> None:
    """Each is one that someone would plausibly set. What is not, is a constant of its module."""
    # four of them say whose tokens are taken in place of keys, and no other can be told from these
    assert len(Settings.model_fields) <= 64


def test_what_needs_a_session_goes_past_a_pooler() -> None:
    alone = Settings(database_url="postgresql://db/foldex")
    assert (alone.database, alone.session_url) == ("postgresql://db/foldex", "postgresql://db/foldex")
    pooled = Settings(database_url="postgresql://pooler/foldex", database_session_url="postgresql://db/foldex")
    assert (pooled.database, pooled.session_url) == (
        PooledAddress("postgresql://pooler/foldex"),
        "postgresql://db/foldex",
    )


def test_help_cuts_no_sentence(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said(monkeypatch, "--help")
    usage, *lines = capsys.readouterr().out.splitlines()
    assert usage.startswith("Usage: ")
    assert not [line for line in lines if line.endswith("...")]


def test_all_bad_values_are_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_PORT", "x")
    monkeypatch.setenv("MAX_TOOLS", "-1")
    with pytest.raises(Invalid) as refused:
        Settings()
    assert [line.split()[0] for line in refused.value.message.splitlines()] == ["API_PORT", "MAX_TOOLS"]


class Wider(Settings):
    """The settings with a further one."""

    shelf_seconds: float = Field(3.0, ge=1, description="Seconds on a shelf.")


@dataclass(frozen=True)
class ShelfOptions:
    """What needs the further one."""

    shelf_seconds: float


def test_a_further_setting_is_read_explained_passed_on_and_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Wider().values(ShelfOptions) == ShelfOptions(3)
    monkeypatch.setenv("SHELF_SECONDS", "5.5")
    assert Wider().values(ShelfOptions) == ShelfOptions(5.5)
    monkeypatch.setenv("SHELF_SECONDS", "0")
    with pytest.raises(Invalid, match=r"^SHELF_SECONDS is '0'.* 1\. Seconds on a shelf\.$"):
        Wider()
    monkeypatch.setattr(generate, "Settings", Wider)
    assert "| `SHELF_SECONDS` | `3` | Seconds on a shelf. |" in list(generate.settings())


@pytest.mark.parametrize("group", [RerankOptions, SourceOptions, StoreOptions])
def test_a_group_has_the_names_and_types_of_settings(group: type) -> None:
    types = get_type_hints(Settings)
    assert {name: types.get(name) for name in get_type_hints(group)} == get_type_hints(group)


@pytest.mark.parametrize("command", [["serve"], ["migrate"], ["keys", "list"], ["fsck", "--all"]])
def test_a_database_that_is_away_is_said_in_one_line(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("DATABASE_URL", NOBODY)
    message = said(monkeypatch, *command)
    assert message.startswith("Error: The database does not answer; check DATABASE_URL. connection failed")
    assert message.count("\n") == 1
    assert "secret" not in message


def test_without_a_database_of_its_own_foldex_is_to_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.setattr(database, "read_settings", lambda: Settings(database_url=NOBODY))
    message = said(monkeypatch, "keys", "list")
    assert message.startswith("Error: The database does not answer; start Foldex with `foldex up`, or set DATABASE_URL")


#: The lowest and the highest value of each setting that has bounds; None: it has no highest.
BOUNDS: dict[str, tuple[float, float | None]] = {
    **dict.fromkeys(("api_port", "flower_port"), (1, 65535)),
    "api_processes": (1, 64),
    **dict.fromkeys(("embedding_dimensions", "embedding_batch_size", "embedding_rpm", "embedding_tpm"), (1, None)),
    **dict.fromkeys(("llm_rpm", "llm_tpm", "worker_concurrency", "parse_seconds"), (1, None)),
    **dict.fromkeys(("max_file_bytes", "max_body_bytes", "max_tools"), (1, None)),
    **dict.fromkeys(("chunk_overlap_tokens", "chunk_overlap_chars", "chunk_threshold_chars"), (0, None)),
    "watch_rest_seconds": (0, None),
    **dict.fromkeys(("chunk_size_tokens", "chunk_size_chars"), (16, None)),
    "search_seconds": (0.001, 300),
    "embedding_concurrency": (1, 64),
    **dict.fromkeys(("parse_memory_mb", "api_memory_mb"), (256, None)),
    "ocr_pictures": (0, 1000),
}


def has_bounds(name: str) -> bool:
    return any(hasattr(each, bound) for each in Settings.model_fields[name].metadata for bound in ("ge", "gt"))


def test_the_bounds_of_each_setting_are_known() -> None:
    assert {name for name in Settings.model_fields if has_bounds(name)} == BOUNDS.keys()


@pytest.mark.parametrize(("name", "bounds"), BOUNDS.items())
def test_a_setting_takes_what_is_within_its_bounds(name: str, bounds: tuple[float, float | None]) -> None:
    lowest, highest = bounds
    for value in (lowest, 2 * lowest if highest is None else highest):
        assert getattr(Settings(**{name: value}), name) == value
    beyond = [int(lowest) if 0 < lowest < 1 else lowest - 1, *([] if highest is None else [highest + 1])]
    for value in beyond:
        with pytest.raises(Invalid, match=f"^{name.upper()} is {value}"):
            Settings(**{name: value})


#: Values that a setting with a pattern takes, and values that it refuses.
PATTERNS: dict[str, tuple[list[str], list[str]]] = {
    **dict.fromkeys(
        ("database_url", "database_session_url"),
        (["postgres://db/foldex", "postgresql://db/foldex"], ["mysql://db/foldex", "db postgres://db/foldex"]),
    ),
    "celery_broker_url": (["redis://r", "rediss://r", "amqp://r", "amqps://r"], ["http://r", "foo://r", "r amqp://r"]),
    "redis_url": (["redis://r", "rediss://r", "unix:///r"], ["amqp://r", "r redis://r"]),
    "s3_events_queue_url": (
        ["https://sqs.example.org/1/q", "http://q/1"],
        ["q", "https://q", "https:///q", "ftp://q/1"],
    ),
    "flower_url": (["http://f", "https://f"], ["javascript:alert()//https://f"]),
    "ocr_languages": (["eng", "deu+chi_sim"], ["eng+", "+eng", "deu eng"]),
    "namespace_prefix": (["", "a", "_", "-a.b_c", "a" * 32], [".a", "a/b", "a" * 33]),
}


def test_the_patterns_of_settings_are_known() -> None:
    fields = Settings.model_fields
    has_pattern = {name for name in fields if any(getattr(each, "pattern", None) for each in fields[name].metadata)}
    assert has_pattern == PATTERNS.keys()


@pytest.mark.parametrize(("name", "values"), PATTERNS.items())
def test_a_setting_takes_what_has_its_pattern(name: str, values: tuple[list[str], list[str]]) -> None:
    taken, refused = values
    assert [getattr(Settings(**{name: value}), name) for value in taken] == taken
    for value in refused:
        with pytest.raises(Invalid, match=f"^{name.upper()} is "):
            Settings(**{name: value})

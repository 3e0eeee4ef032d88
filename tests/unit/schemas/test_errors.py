"""What callers decide by: the status of each code, and whether a retry can help."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from schemas.errors import FilterMatchesNothing, FoldexError, StoreUnavailable

STATUSES = {
    400: "url_too_long",
    401: "unauthorized token_invalid",
    403: "scope_missing token_unusable auth_required cross_site session_needed link_used",
    404: "not_found",
    408: "body_too_slow",
    409: "conflict lease_lost too_many_tools last_admin_key",
    413: "too_large",
    416: "range_not_satisfiable",
    422: "invalid_request no_such_files embedding_model_refused model_not_allowed no_tree source_error folder_gone"
    " source_refused rerank_not_configured llm_not_configured tree_error too_many_leaves too_many_tokens"
    " missing_dependency too_many_values folder_elsewhere",
    429: "project_busy",
    431: "headers_too_large",
    500: "internal file_error file_too_slow task_crashed plan_crashed slice_crashed tree_crashed",
    502: "embedding_error embedding_refused embedding_unreadable embedding_unauthorized rerank_error llm_error"
    " llm_refused llm_unauthorized llm_failed store_error store_refused store_unauthorized"
    " text_key_missing",
    503: "source_unavailable embedding_unavailable rerank_unavailable llm_unavailable store_unavailable disk_full"
    " tool_slow too_many_connections server_busy search_busy estimate_busy slice_over source_busy"
    " bodies_busy locked schema_behind release_behind vectors_elsewhere contents_elsewhere"
    " issuer_unavailable",
}


def tree(error: type[FoldexError] = FoldexError) -> Iterator[type[FoldexError]]:
    if error.__module__.startswith("schemas.errors."):
        yield error
    for child in error.__subclasses__():
        yield from tree(child)


@pytest.mark.parametrize("error", [*tree()], ids=lambda error: error.code)
def test_a_code_has_one_status_and_a_retry_helps_where_something_is_away(error: type[FoldexError]) -> None:
    assert error.code in STATUSES[error.status].split()
    assert error.retryable is (error.status in {429, 503})


@pytest.mark.parametrize("error", [error for error in tree() if error.example], ids=lambda error: error.code)
def test_a_remedy_names_fields_and_no_flag_or_button(error: type[FoldexError]) -> None:
    # an operator's whole command is in backticks
    said = re.sub(r"`foldex [^`]*`", "", error.example)
    assert not re.search(r"(?<![\w-])--?[a-z]|\b(?:button|click|press)\b", said)


def test_no_two_errors_have_one_code() -> None:
    codes = [error.code for error in tree()]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize(
    "error",
    [StoreUnavailable("away", retry_after=7, timed_out=True), FilterMatchesNothing("none", hint=" Look there.")],
)
def test_another_message_changes_nothing_else(error: FoldexError) -> None:
    other = error.with_message("another")
    assert (type(other), str(other), other.message) == (type(error), "another", "another")
    assert vars(other) == {**vars(error), "message": "another"}

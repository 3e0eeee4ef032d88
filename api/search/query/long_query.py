"""Splits a query that is too long for one vector or for keywords into parts, whose rankings are fused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil

from api.search.query.index_search import SearchReport, note
from schemas.queries.search import Hit

#: A query of this many characters is split. Some models read 256 pieces of about four characters.
LONG_CHARACTERS = 1_000
#: Maximum characters of a part: pieces are shorter in code and in stack traces.
PART_CHARACTERS = 700
#: Maximum parts of all queries of a search. Each costs a vector and two keyword legs.
MAX_PARTS = 16


def split(texts: Sequence[str]) -> tuple[dict[str, str], SearchReport]:
    """The texts to search for, with the query that each is a part of, and a note if some query is in parts."""
    most = max(1, MAX_PARTS // len(texts))
    by_query = {text: _parts(text) if len(text) > LONG_CHARACTERS else [text] for text in texts}
    queries = {part: text for text, parts in by_query.items() for part in _ends(parts, most)}
    if list(queries) == list(texts):
        return queries, SearchReport()
    detail = f"Queries of more than {LONG_CHARACTERS:,} characters were searched in parts."
    if any(len(parts) > most for parts in by_query.values()):
        detail += " Text between the beginning and the end of a query was left out; send a shorter one."
    return queries, note("query_split", detail)


def with_whole_queries(hit: Hit, queries: Mapping[str, str]) -> Hit:
    """The hit with the queries whose parts would find it."""
    whole = list(dict.fromkeys(queries.get(part, part) for part in hit.matched_queries or ()))
    return hit.model_copy(update={"matched_queries": whole})


def _parts(text: str) -> list[str]:
    """Parts of at most `PART_CHARACTERS`, cut between lines, else between words."""
    parts: list[str] = []
    rest = text.strip()
    while len(rest) > PART_CHARACTERS:
        # parts of equal length, because a last part of one word would count as much as the others
        end = ceil(len(rest) / ceil(len(rest) / PART_CHARACTERS))
        borders = (rest.rfind("\n", 0, end + 1), rest.rfind(" ", 0, end + 1))
        cut = next((border for border in borders if border > end // 2), end)
        parts.append(rest[:cut].rstrip())
        rest = rest[cut:].lstrip()
    return [*parts, rest] if rest else parts


def _ends(parts: Sequence[str], most: int) -> Sequence[str]:
    """The first part and the last ones: a stack trace ends with what matters."""
    return parts if len(parts) <= most else [*parts[:1], *parts[len(parts) - most + 1 :]]

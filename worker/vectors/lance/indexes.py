"""Indexes of LanceDB tables on words and ids, and in large tables on filter columns.

The id index cuts patches from 118 ms to 5 ms at 200,000 rows. The filter indexes cut a search in a thousandth of
400,000 rows from 208 ms to 3 ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from worker.vectors import Field

#: The keyword columns.
FIELDS = ("words", "code")
#: The columns of narrow filters. An index does not help a filter that most rows pass.
FILTERED = ("file_node_id", "file_id_path", "symbol")
#: The columns that keyword legs search, by their field.
COLUMNS: Mapping[Field, str] = {"text": "words", "code": "code"}


def create(dataset: Any, column: str) -> None:
    """Index a column, replacing an existing index. Raises Lance's errors."""
    if column in FIELDS:
        # The text is already tokenized. Rows without an index are searched as well.
        dataset.create_scalar_index(
            column,
            "INVERTED",
            base_tokenizer="whitespace",
            max_token_length=None,
            lower_case=False,
            stem=False,
            remove_stop_words=False,
            with_position=False,
        )
    else:
        dataset.create_scalar_index(column, "BTREE")


def indexable(dataset: Any, large_rows: int) -> list[str]:
    """Return the columns of a table that need an index. A table is large if it has `large_rows`."""
    filtered = FILTERED if dataset.count_rows() >= large_rows else ()
    return [column for column in ("id", *FIELDS, *filtered) if column in dataset.schema.names]


def add_missing(dataset: Any, large_rows: int) -> None:
    """Create the indexes that a table lacks, for example because it grew."""
    indexed = {column for index in dataset.describe_indices() for column in index.field_names}
    for column in indexable(dataset, large_rows):
        if column not in indexed:
            create(dataset, column)


def read_all(dataset: Any, column: str) -> None:
    """Read all of an index, if a column has one, and run a small query. Raises Lance's errors."""
    name = f"{column}_idx"
    if name in {index.name for index in dataset.describe_indices()}:
        dataset.prewarm_index(name)
    read(dataset, column)


def read(dataset: Any, column: str) -> None:
    """Run a small query on an index. Raises Lance's errors."""
    from lance.query import MatchQuery

    if column in FIELDS:
        dataset.scanner(columns=["id", "_score"], full_text_query=MatchQuery("a", column), limit=1).to_table()
    else:
        dataset.scanner(filter=f"{column} = 'a'", limit=1).to_table()

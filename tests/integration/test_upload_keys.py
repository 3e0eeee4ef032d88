"""An upload makes few commits in Postgres, however many files it has, and leaves no key behind."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from tests.integration.test_renames import upload_all
from tests.service import Service, eventually

FILES = 40
#: A sequence keeps its count even after a rollback.
COUNTED = """
CREATE SEQUENCE announced;
CREATE FUNCTION count_announced() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM nextval('public.announced') WHERE EXISTS (SELECT FROM inserted);
    RETURN NULL;
END $$;
CREATE TRIGGER announced AFTER INSERT ON content_stray REFERENCING NEW TABLE AS inserted
FOR EACH STATEMENT EXECUTE FUNCTION count_announced();
"""


@pytest.fixture
def counted(running: Service) -> Iterator[psycopg.Connection]:
    with psycopg.connect(running.database_url, autocommit=True) as connection:
        connection.execute(COUNTED.encode())
        yield connection
        connection.execute("DROP FUNCTION count_announced CASCADE; DROP SEQUENCE announced")


def test_an_upload_of_many_files_announces_them_in_a_few_transactions(
    running: Service, counted: psycopg.Connection
) -> None:
    folder = running.node("many", "folder")
    items = upload_all(running, folder, {f"{number}.md": f"note {number}\n" for number in range(FILES)})
    assert {item["outcome"] for item in items} == {"created"}
    # 1, 1, 1, 2, 3, 4, 6, 9 and 14 keys; unused ones are released
    assert counted.execute("SELECT last_value FROM announced").fetchone() == (9,)
    assert counted.execute("SELECT count(*) FROM content_stray").fetchone() == (0,)
    assert counted.execute("SELECT count(DISTINCT object_key) FROM content_node").fetchone() == (FILES,)


def test_an_upload_that_comes_to_nothing_leaves_no_key(running: Service, counted: psycopg.Connection) -> None:
    files = [("files", (f"{number}.md", b"note\n")) for number in range(FILES)]
    url = "/api/projects/project-1/uploads"
    assert running.client.post(url, files=files, data={"parent_id": "no-such-folder"}).status_code == 404
    eventually(lambda: counted.execute("SELECT count(*) FROM content_stray").fetchone() == (0,), 20, running.logs)

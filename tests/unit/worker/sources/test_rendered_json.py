"""Inline JSON as it is indexed: the limit is in bytes of what is written."""

from __future__ import annotations

import json

import pytest

from schemas.errors import FileError
from schemas.reason import Reason
from tests.helpers import HELPERS
from worker.sandbox.texts import json_text


@pytest.mark.parametrize("text", ["[]", '{"a":[1,"é"]}', '"\\u00e9\\u00e9\\u00e9"'])
def test_json_is_written_up_to_the_limit_in_bytes(text: str) -> None:
    data = json.dumps(json.loads(text), indent=2, ensure_ascii=False).encode()
    assert json_text(HELPERS, text, len(data)) == data
    for limit in (len(data) - 1, 1):
        with pytest.raises(FileError) as caught:
            json_text(HELPERS, text, limit)
        assert caught.value.reason is Reason.TOO_LARGE

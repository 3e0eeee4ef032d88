"""Addresses of hits on the web, and templates for them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from schemas.content.node import NewNode
from schemas.tool import ToolConfig
from schemas.url import MAX_CHARACTERS, PLACEHOLDERS, filled

WRONG = [
    *("javascript:alert(1)", "ftp://host/a", "//host/a", "/a", "host/a", "https:", "https://", "https:///a", ""),
    *("https://host/a b", "https://host/\n", "https://host\\@other/", " https://host/", "data:text/html,a"),
    "https://host/" + MAX_CHARACTERS * "a",
]


@pytest.mark.parametrize("url", WRONG)
def test_only_whole_addresses_of_the_web_are_taken(url: str) -> None:
    for refused in (lambda: NewNode(name="a", type="file", url=url), lambda: ToolConfig(url_template=url)):
        with pytest.raises(ValidationError):
            refused()


@pytest.mark.parametrize(
    "template",
    [
        *("https://host/{path}", "https://host/{}", "https://host/{file_path", "https://host/a}", "https://host/{{x}}"),
        # what a file is called decides no host
        *("https://{file_name}/a", "https://host{file_path}", "{file_path}"),
    ],
)
def test_a_template_holds_known_placeholders_after_its_host(template: str) -> None:
    with pytest.raises(ValidationError):
        ToolConfig(url_template=template)


@pytest.mark.parametrize("url", ["http://host", "https://host:1/a?b#c", "HTTPS://host/{file_path}#L{start_line}"])
def test_these_are_taken(url: str) -> None:
    assert ToolConfig(url_template=url).url_template == url


def test_values_are_encoded() -> None:
    values = dict.fromkeys(PLACEHOLDERS)
    values |= {"file_path": "a b/ä?.md", "file_name": "a/b#c", "start_line": 3, "file_id": "{page}"}
    template = "https://host/{file_path}?n={file_name}&p={page}&i={file_id}#L{start_line}"
    shown = filled(template, values)
    assert shown == "https://host/a%20b/%C3%A4%3F.md?n=a%2Fb%23c&p=&i=%7Bpage%7D#L3"

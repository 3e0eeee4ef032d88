"""The text of `/llms.txt`, for a language model that is given the address of a service."""

from __future__ import annotations

from typing import Final

TEXT: Final = """# Foldex

> Foldex makes folders searchable: documents and code, by meaning, words, patterns and definitions. It keeps indexes
> up to date. This is a running service; calls need a key as `Authorization: Bearer <key>` unless it runs with AUTH=off.

## Connect

- [/mcp](/mcp): the Model Context Protocol over streamable HTTP, with tools, prompts and resources
  (`foldex://folder/path#L10`)
- [/openapi.json](/openapi.json): every HTTP call, with examples
- [/docs](/docs): the same to read

## When to use which tool

- search: questions and ideas, in one folder, several, or all
- grep: exact text, patterns, messages of errors
- find_symbol, find_references, callers: where a name is defined, used, and called from
- outline: what a file or folder defines, instead of reading it whole
- impact: what a change of a name touches
- read_file: the lines that a result names

## HTTP calls

- GET /api/tools/search: list search tools, one for each indexed folder
- POST /api/tools/search: index a folder
- GET /api/tools/search/{tool_id}/status: how far its index is
- POST /api/tools/search/{tool_id}/query: search by meaning and words
- POST /api/tools/search/{tool_id}/grep: find lines
- POST /api/search: search several tools at once
- GET /api/tools/search/{tool_id}/symbols, /symbols/callers, /symbols/callees, /outline, /references, /impact: code
- GET /api/tools/search/{tool_id}/files/{file_id}: read a file

Errors are `application/problem+json`: `detail` names the remedy, and `code` is stable.
"""

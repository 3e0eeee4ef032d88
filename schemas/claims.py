"""Claims of a signed token that name the project and the principals of its user."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: What is written for the claim that names the project.
_PROJECT = "project"
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,31}")


@dataclass(frozen=True, slots=True)
class ClaimNames:
    """Kinds of principals with the claim of each, and the claim of the project or the project of all tokens."""

    principals: tuple[tuple[str, str], ...]
    project_claim: str | None
    project: str | None

    @classmethod
    def parsed(cls, text: str) -> ClaimNames:
        """Read `KIND=CLAIM,…,project=CLAIM` or `…,project:=ID`. Raises `ValueError`."""
        principals, claim, project = [], None, None
        for part in text.split(","):
            kind, equals, value = (each.strip() for each in part.partition("="))
            is_fixed = kind == f"{_PROJECT}:"
            if not (equals and value) or not (is_fixed or _KIND.fullmatch(kind)):
                raise ValueError(
                    "write KIND=CLAIM, separated by commas, such as user=email,group=groups,project=tenant"
                )
            if is_fixed or kind == _PROJECT:
                if claim or project:
                    raise ValueError("the project is named twice; leave one out")
                claim, project = (None, value) if is_fixed else (value, None)
            else:
                principals.append((kind, value))
        if not principals:
            raise ValueError("no claim names a principal; add one, such as user=email")
        if not (claim or project):
            raise ValueError("nothing names the project; add project=CLAIM, or project:=ID for one project")
        return cls(tuple(principals), claim, project)

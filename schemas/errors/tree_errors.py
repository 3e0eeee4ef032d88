"""Errors of summary trees."""

from __future__ import annotations

from schemas.errors.base import FoldexError


class TreeError(FoldexError):
    """A summary tree cannot be built as its config says."""

    code = "tree_error"
    status = 422


class TooManyLeaves(TreeError):
    """The folder has more texts than the cluster method may take."""

    code = "too_many_leaves"


class TooManyTokens(TreeError):
    """The build would send and receive more tokens than `max_tokens` allows."""

    code = "too_many_tokens"


class MissingDependency(TreeError):
    """The workers lack the libraries of the cluster method."""

    code = "missing_dependency"

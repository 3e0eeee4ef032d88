"""Results of the checks of `foldex doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The outcome of a check. `detail` names the remedy if it is not well."""

    what: str
    is_well: bool
    detail: str

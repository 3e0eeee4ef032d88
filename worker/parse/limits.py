"""What one file may cost, whatever it holds."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.errors import FileError
from schemas.status import Reason

#: So many times its processor time a file may take by the clock, on a machine that is busy with other things.
BUSY = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one file.

    `seconds` and `memory_bytes` hold for isolated formats, which are read in a process of their own: the seconds are of
    processor time, of that process and again of Tesseract; of converters of .doc they are by the clock. The worker's
    own reading and cutting has so many seconds, too. `ocr_languages` are those of text in pictures, as Tesseract calls
    them, joined by "+".
    """

    max_pages: int = 5_000
    max_characters: int = 50_000_000
    seconds: float = 60.0
    memory_bytes: int = 1 << 30
    ocr_languages: str = "eng"

    def check_pages(self, count: int, what: str = "pages") -> None:
        """Raise `FileError` (`too_large`) for more pages (slides, sheets, images) than are read."""
        if count > self.max_pages:
            raise too_large(f"The file has {count:,} {what}, more than MAX_PAGES ({self.max_pages:,})")

    def check_characters(self, count: int) -> None:
        """Raise `FileError` (`too_large`) for a longer text than is indexed."""
        if count > self.max_characters:
            raise too_large(f"The file's text is longer than MAX_CHARACTERS ({self.max_characters:,})")


def too_large(what: str, remedy: str = "split it") -> FileError:
    """The outcome of a file that is over the bound that `what` names."""
    return FileError(Reason.TOO_LARGE, f"{what}; {remedy} or raise that setting.")

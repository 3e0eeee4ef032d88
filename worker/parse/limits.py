"""Cost limits of one file, whatever its content."""

from __future__ import annotations

from dataclasses import dataclass

from schemas.errors import FileError
from schemas.reason import Reason

#: Limit on wall-clock time per file, as a multiple of its processor time: the machine may be busy with other work.
BUSY = 10


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one file.

    `seconds` and `memory_bytes` apply to isolated formats, which are read in their own process. The seconds are
    processor time, counted for that process and again for Tesseract; for converters of .doc they are wall-clock time.
    The worker's own reading and chunking is limited to the same number of seconds. `ocr_languages` are those of text in
    pictures, as Tesseract names them, joined by "+". `ocr_pictures` is the number of pictures of an office file, a book
    or a mail that are read.
    """

    max_pages: int = 5_000
    max_characters: int = 50_000_000
    seconds: float = 60.0
    memory_bytes: int = 1 << 30
    ocr_languages: str = "eng"
    ocr_pictures: int = 0

    def check_pages(self, count: int, unit: str = "pages") -> None:
        """Raise `FileError` (`too_large`) if there are more pages (slides, sheets, images) than allowed."""
        if count > self.max_pages:
            raise FileError(Reason.TOO_LARGE, f"The file has {count:,} {unit}, more than {self.max_pages:,}; split it.")

    def check_characters(self, count: int) -> None:
        """Raise `FileError` (`too_large`) if the text is longer than allowed."""
        if count > self.max_characters:
            raise FileError(
                Reason.TOO_LARGE, f"The file's text has more than {self.max_characters:,} characters; split it."
            )


def too_large(excess: str, remedy: str = "split it") -> FileError:
    """Return the error for a file that exceeds the setting named in `excess`."""
    return FileError(Reason.TOO_LARGE, f"{excess}; {remedy} or raise that setting.")

"""PDF files made from drawing operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

#: A page in points.
WIDTH, HEIGHT = 600, 800


def drawn(pages: Sequence[Sequence[str]], root: str = "") -> bytes:
    """A file whose pages hold drawing operators, with the fonts F (regular) and B (bold)."""
    objects = {
        1: f"<</Type/Catalog/Pages 2 0 R{root}>>",
        3: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        4: "<</Type/Font/Subtype/Type1/BaseFont/Helvetica-Bold>>",
    }
    numbers = [10 + 2 * at for at in range(len(pages))]
    objects[2] = f"<</Type/Pages/Count {len(pages)}/Kids[{' '.join(f'{number} 0 R' for number in numbers)}]>>"
    for number, operators in zip(numbers, pages, strict=True):
        content = "\n".join(operators)
        objects[number] = (
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 {WIDTH} {HEIGHT}]/Contents {number + 1} 0 R"
            "/Resources<</Font<</F 3 0 R/B 4 0 R>>>>>>"
        )
        objects[number + 1] = f"<</Length {len(content)}>>stream\n{content}\nendstream"
    body = "".join(f"{number} 0 obj\n{text}\nendobj\n" for number, text in objects.items())
    return f"%PDF-1.7\n{body}trailer\n<</Root 1 0 R>>\n%%EOF".encode("latin-1")


def text(x: float, y: float, words: str, size: float = 10, font: str = "F") -> str:
    """A line of text whose baseline starts at a place."""
    return f"BT /{font} {size} Tf {x} {y} Td ({words}) Tj ET"


def rule(x: float, y: float, end_x: float, end_y: float) -> str:
    """A drawn line."""
    return f"{x} {y} m {end_x} {end_y} l S"


def bar(x: float, y: float, end_x: float, end_y: float) -> str:
    """A line as a thin filled rectangle."""
    return f"{x - 0.25} {y - 0.25} {end_x - x + 0.5} {end_y - y + 0.5} re f"


def frame(x: float, y: float, end_x: float, end_y: float) -> str:
    """A drawn rectangle."""
    return f"{x} {y} {end_x - x} {end_y - y} re S"


def paragraph(y: float, lines: Iterable[str], size: float = 10, pitch: float = 12) -> list[str]:
    """Lines of running text from a height on."""
    return [text(72, y - at * pitch, line, size) for at, line in enumerate(lines)]

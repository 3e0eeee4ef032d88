"""Reads presentations with python-pptx: each slide's title as heading, text, tables, charts, speaker's notes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from io import BytesIO
from itertools import chain, islice
from typing import Any

from defusedxml.ElementTree import fromstring
from pptx import Presentation
from pptx.oxml import parse_xml
from pptx.oxml.ns import nsdecls, qn

from schemas.content.document import Document
from schemas.errors import FileError
from worker.parse.limits import Limits
from worker.parse.ocr import image
from worker.parse.office import drawing
from worker.parse.office.transitional import transitional
from worker.parse.programs import cpu_seconds
from worker.parse.text.markdown import title_of
from worker.parse.text.markdown_blocks import comment, heading, item, joined, laid_out, named, paragraph, table

#: A formula within text.
_FORMULA = "{http://schemas.microsoft.com/office/drawing/2010/main}m"
_PICTURE = qn("p:pic")
#: Maximum shapes of a slide or a group that are searched for pictures.
_MAX_PICTURES = 20
_INK = qn("p:contentPart")
_COMPATIBLE = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"


def read(data: bytes, limits: Limits) -> Document:
    """Return the slides as Markdown, one page each. Raises `FileError` as `zip_container.open_container` does."""
    data, properties = transitional(data, limits)
    presentation = Presentation(BytesIO(data))
    slides = presentation.slides
    limits.check_pages(len(slides), "slides")
    people = _people(presentation.part)
    text, pages = laid_out(_texts(slides, people, limits), limits)
    title = properties.title or title_of(text)
    return Document(text, "pptx", title=title, markup="markdown", pages=pages, properties=properties)


def _texts(slides: Iterable[Any], people: dict[str, str], limits: Limits) -> Iterator[str]:
    """Return the text of each slide; for one with only pictures, their text. If there is none, raises the reason."""
    cpu_deadline = cpu_seconds() + limits.seconds
    has_text, hindrances = False, list[FileError]()
    for number, slide in enumerate(slides, 1):
        text = joined(_slide(slide, number, people, limits), limits)
        if not text:
            shown = joined(_read_pictures(slide.shapes, cpu_deadline, limits, hindrances), limits)
            text = f"{heading(1, f'Slide {number}')}\n\n{shown}" if shown else ""
        has_text = has_text or bool(text)
        yield text
    if hindrances and not has_text:
        raise hindrances[0]


def _read_pictures(
    shapes: Iterable[Any], cpu_deadline: float, limits: Limits, hindrances: list[FileError]
) -> Iterator[str]:
    """Return the text that Tesseract finds in pictures, and add the reasons for failures to `hindrances`."""
    for shape in islice(shapes, _MAX_PICTURES):
        if hasattr(shape, "shapes"):
            yield from _read_pictures(shape.shapes, cpu_deadline, limits, hindrances)
        elif shape.element.tag == _PICTURE:
            try:
                yield paragraph(image.text_and_pages(shape.image.blob, cpu_deadline, limits)[0])
            except FileError as failure:
                hindrances.append(failure)
            except (OSError, ValueError, LookupError):
                # a picture that is linked, missing, drawn by commands or damaged
                continue


def _parts(part: Any, kind: str) -> Iterator[Any]:
    """Roots of the parts that a part refers to with a relation of the kind."""
    for relation in part.rels.values():
        if not relation.is_external and relation.reltype.endswith(kind):
            yield fromstring(relation.target_part.blob)


def _people(part: Any) -> dict[str, str]:
    """Return the names of comment authors, by id."""
    authors = chain(*_parts(part, "/commentAuthors"), *_parts(part, "/authors"))
    return {author.get("id", ""): author.get("name", "") for author in authors}


def _comments(slide: Any, people: dict[str, str]) -> Iterator[str]:
    """Comments and replies, in the formats used since 2018 and before."""
    for element in chain.from_iterable(root.iter() for root in _parts(slide.part, "/comments")):
        kind = element.tag.rpartition("}")[2]
        if kind in ("cm", "reply"):
            plain = element.findtext(qn("p:text"), "")
            written = " ".join(drawing.written(body) for body in element if body.tag.endswith("}txBody"))
            yield comment(people.get(element.get("authorId", ""), ""), plain or written)


def _slide(slide: Any, number: int, people: dict[str, str], limits: Limits) -> Iterator[str]:
    _unwrap_alternatives(slide.shapes.element)
    title = slide.shapes.title
    content = [block for block in _shapes(slide.shapes, title, limits) if block]
    frame = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    notes = paragraph(frame.text) if frame is not None else ""
    name = title.text_frame.text if title is not None else ""
    annotations = [f"Notes: {notes}"] if notes else []
    annotations += _comments(slide, people)
    if name.strip() or content or annotations:
        yield heading(1, name) or heading(1, f"Slide {number}")
    yield from content
    yield from annotations


def _unwrap_alternatives(tree: Any) -> None:
    """Unwrap the first of several alternative drawings, such as text with formulas, so that the library finds it.

    Ink has no text, and the library fails on it: its fallback is taken.
    """
    for group in [tree, *tree.iter(qn("p:grpSp"))]:
        for alternatives in group.findall(f"{_COMPATIBLE}AlternateContent"):
            index = group.index(alternatives)
            drawn = next((choice for choice in alternatives if choice.find(_INK) is None), ())
            group[index : index + 1] = list(drawn)
        for ink in group.findall(_INK):
            group.remove(ink)
    for formula in list(tree.iter(_FORMULA)):
        formula.getparent().replace(formula, _run(drawing.formula(formula)))


def _run(text: str) -> Any:
    run = parse_xml(f"<a:r {nsdecls('a')}><a:t/></a:r>")
    run.text = text
    return run


def _shapes(shapes: Iterable[Any], title: Any, limits: Limits) -> Iterator[str]:
    for shape in shapes:
        yield named("Picture", _description(shape))
        if title is not None and shape.shape_id == title.shape_id:
            continue
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes, title, limits)
        elif getattr(shape, "has_table", False):
            yield table(([cell.text for cell in row.cells] for row in shape.table.rows), limits)
        elif shape.has_text_frame and not _is_number(shape):
            yield from _lines(shape.text_frame)
        else:
            yield from _drawings(shape, limits)


def _description(shape: Any) -> str:
    properties = next(shape.element.iter(qn("p:cNvPr")), None)
    return drawing.described(properties) if properties is not None else ""


def _is_number(shape: Any) -> bool:
    return any(placeholder.get("type") == "sldNum" for placeholder in shape.element.iter(qn("p:ph")))


def _drawings(shape: Any, limits: Limits) -> Iterator[str]:
    """Yield the text of a chart or a diagram."""
    for reference in shape.element.iter(*drawing.REFERENCES):
        relation = shape.part.rels.get(reference.get(drawing.REFERENCES[reference.tag]))
        if relation is not None and not relation.is_external:
            yield from drawing.read(reference.tag, relation.target_part.blob, limits)


def _lines(frame: Any) -> Iterator[str]:
    """Yield several paragraphs of one shape as a list, as slides show them."""
    paragraphs = [p for p in frame.paragraphs if p.text.strip()]
    for each in paragraphs:
        yield item(each.level, each.text) if len(paragraphs) > 1 else paragraph(each.text)

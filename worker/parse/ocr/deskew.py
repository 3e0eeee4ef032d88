"""How far lines of text in a picture lie askew: straight, they and the gaps between them differ the most."""

from __future__ import annotations

from typing import Any

#: Pixels along the longer side of the copy that is looked at.
_SIDE = 500
#: Degrees that are tried either way, and those that Tesseract reads as they are.
_MOST, _LEAST = 20, 2
#: So many times as marked must lines be when turned; below it a photo would be read twice.
_MARKED = 1.2


def skew(grey: Any) -> float:
    """Degrees, anticlockwise, by which to turn a picture in shades of grey so that its lines are straight; 0: it is."""
    from PIL import Image, ImageOps

    small = grey.copy()
    small.thumbnail((_SIDE, _SIDE), Image.Resampling.BOX)
    small = ImageOps.autocontrast(small)

    def marked(angle: float) -> float:
        return _ripple(turned(small, angle))

    coarse = max(range(-_MOST, _MOST + 1), key=marked)
    angle = max((coarse + quarters / 4 for quarters in range(-3, 4)), key=marked)
    return angle if abs(angle) >= _LEAST and marked(angle) > _MARKED * marked(0) else 0


def turned(grey: Any, angle: float, *, expand: bool = False) -> Any:
    """The picture turned on ground of its own shade."""
    from PIL import Image, ImageStat

    ground = ImageStat.Stat(grey).median[0]
    return grey.rotate(angle, Image.Resampling.BICUBIC, expand=expand, fillcolor=ground)


def _ripple(grey: Any) -> float:
    """How much neighbouring rows differ, or columns, where text runs upwards."""
    from PIL import Image, ImageChops, ImageStat

    def differing(size: tuple[int, int], x: int, y: int) -> float:
        shades = grey.resize(size, Image.Resampling.BOX)
        return float(ImageStat.Stat(ImageChops.difference(shades, ImageChops.offset(shades, x, y))).sum2[0])

    return max(differing((1, grey.height), 0, 1), differing((grey.width, 1), 1, 0))

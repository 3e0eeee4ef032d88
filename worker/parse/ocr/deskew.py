"""Measures the tilt of text lines: when they are level, rows of text and gaps differ the most."""

from __future__ import annotations

from typing import Any

#: Pixels along the longer side of the copy that is measured.
_SAMPLE_SIDE_PIXELS = 500
#: Degrees tried in either direction.
_MAX_TILT_DEGREES = 20
#: Minimum tilt that is corrected. Tesseract can read text with a smaller one.
_MIN_TILT_DEGREES = 2
#: Factor by which turning must increase the line contrast. With a lower one, photos would be read twice.
_MIN_CONTRAST_GAIN = 1.2


def skew(grey: Any) -> float:
    """Return the degrees, anticlockwise, that make the lines of a greyscale picture level; 0 if they are."""
    from PIL import Image, ImageOps

    small = grey.copy()
    small.thumbnail((_SAMPLE_SIDE_PIXELS, _SAMPLE_SIDE_PIXELS), Image.Resampling.BOX)
    small = ImageOps.autocontrast(small)

    def contrast(angle: float) -> float:
        return _line_contrast(turned(small, angle))

    coarse = max(range(-_MAX_TILT_DEGREES, _MAX_TILT_DEGREES + 1), key=contrast)
    angle = max((coarse + quarters / 4 for quarters in range(-3, 4)), key=contrast)
    return angle if abs(angle) >= _MIN_TILT_DEGREES and contrast(angle) > _MIN_CONTRAST_GAIN * contrast(0) else 0


def turned(grey: Any, angle: float, *, expand: bool = False) -> Any:
    """Return the picture, turned, with the new corners filled in its median shade."""
    from PIL import Image, ImageStat

    ground = ImageStat.Stat(grey).median[0]
    return grey.rotate(angle, Image.Resampling.BICUBIC, expand=expand, fillcolor=ground)


def _line_contrast(grey: Any) -> float:
    """Return the contrast of neighbouring rows, or of columns if the text runs vertically."""
    from PIL import Image, ImageChops, ImageStat

    def differing(size: tuple[int, int], x: int, y: int) -> float:
        shades = grey.resize(size, Image.Resampling.BOX)
        return float(ImageStat.Stat(ImageChops.difference(shades, ImageChops.offset(shades, x, y))).sum2[0])

    return max(differing((1, grey.height), 0, 1), differing((grey.width, 1), 1, 0))

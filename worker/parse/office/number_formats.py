"""Shows the values of cells as spreadsheets do, by their number formats (ECMA-376, part 1, 18.8.31).

Only what shows more than digits is written: percentages, amounts, dates, units. Names of months and days are those of
the language that a format states, if it is one of a few.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction
from functools import lru_cache

Moment = date | time | timedelta

#: Longest format that Excel accepts, in characters.
_MAX_CODE = 255
#: Numbers from here on are shown in scientific notation, or exceed what a cell holds exactly.
_MAX_NUMBER = 1e15
_MAX_SECTIONS = 4
#: Parts of a format: text in quotes, an escaped sign, room for a sign, a sign that fills the cell, a bracket, or one
#: sign. Parts of dates come in runs of one letter.
_PART = re.compile(
    r'"(?P<quoted>[^"]*)"?|\\(?P<escaped>.)|(?P<room>_.)|\*.|\[(?P<bracket>[^\]]*)\]'
    r"|(?P<general>General)|(?P<half>AM/PM|A/P)|(?P<date>[yY]+|[mM]+|[dD]+|[hH]+|[sS]+)|(?P<exponent>[eE][+-])"
    r"|(?P<digits>[0#?](?:[0#?,]*[0#?])?(?P<thousands>,*))|(?P<sign>.)",
    re.DOTALL | re.IGNORECASE,
)
_CURRENCY = re.compile(r"\$(?P<sign>[^-]*)(?:-(?:(?P<locale>[0-9A-Fa-f]{1,8})|(?P<name>[A-Za-z][\w-]{1,20})))?")
_ELAPSED = re.compile(r"[hH]+|[mM]+|[sS]+")
#: The part of a locale's number that identifies the language.
_LANGUAGE = 0x3FF
#: Languages by the part of a locale's number, with the names of months and days, and shorter ones that are not just the
#: first letters.
_LANGUAGES = {
    0x6: "da", 0x7: "de", 0x9: "en", 0xA: "es", 0xC: "fr", 0x10: "it", 0x13: "nl", 0x14: "nb", 0x16: "pt", 0x1D: "sv",
}  # fmt: skip # a table
_MONTHS = {
    language: names.split()
    for language, names in {
        "da": "januar februar marts april maj juni juli august september oktober november december",
        "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
        "en": "January February March April May June July August September October November December",
        "es": "enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre",
        "fr": "janvier février mars avril mai juin juillet août septembre octobre novembre décembre",
        "it": "gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre",
        "nb": "januar februar mars april mai juni juli august september oktober november desember",
        "nl": "januari februari maart april mei juni juli augustus september oktober november december",
        "pt": "janeiro fevereiro março abril maio junho julho agosto setembro outubro novembro dezembro",
        "sv": "januari februari mars april maj juni juli augusti september oktober november december",
    }.items()
}
_DAYS = {
    language: names.split()
    for language, names in {
        "da": "mandag tirsdag onsdag torsdag fredag lørdag søndag",
        "de": "Montag Dienstag Mittwoch Donnerstag Freitag Samstag Sonntag",
        "en": "Monday Tuesday Wednesday Thursday Friday Saturday Sunday",
        "es": "lunes martes miércoles jueves viernes sábado domingo",
        "fr": "lundi mardi mercredi jeudi vendredi samedi dimanche",
        "it": "lunedì martedì mercoledì giovedì venerdì sabato domenica",
        "nb": "mandag tirsdag onsdag torsdag fredag lørdag søndag",
        "nl": "maandag dinsdag woensdag donderdag vrijdag zaterdag zondag",
        "pt": "segunda-feira terça-feira quarta-feira quinta-feira sexta-feira sábado domingo",
        "sv": "måndag tisdag onsdag torsdag fredag lördag söndag",
    }.items()
}
_SHORT = {
    "März": "Mrz", "maart": "mrt", "janvier": "janv.", "février": "févr.", "mars": "mars", "avril": "avr.",
    "juin": "juin", "juillet": "juil.", "août": "août", "septembre": "sept.", "octobre": "oct.", "novembre": "nov.",
    "décembre": "déc.",
}  # fmt: skip # a table
#: Letters of the shorter names of days that are not three.
_SHORT_DAYS = {"de": 2, "nl": 2}
#: A number without signs of its own, and without zeros in front.
_PLAIN = re.compile(r"-?(?:0|[1-9]\d*)?(?:\.\d*)?")
#: A zero in front of an hour, a day or a month, which a format may leave out.
_ZERO = re.compile(r"\b0(?=\d)")
#: Excel's English output for the formats that follow the system's language.
_OF_SYSTEM = {"mm-dd-yy": "m/d/yyyy", "m/d/yy h:mm": "m/d/yyyy h:mm"}
_NOON = 12
#: Numbers to which a section applies.
_CONDITION = re.compile(r"(?P<sign><=|>=|<|>|=)(?P<bound>-?\d{1,15}(?:\.\d{1,15})?)")
#: A number with a fraction of any denominator, or of a given one, and the digits of the largest denominator.
_FRACTION = re.compile(
    r"(?P<whole>[#0]+(?: |\\ |\" \"))?[?#]{1,9}/(?P<bottom>[?#]{1,9}|[1-9]\d{0,4})"
    r"(?P<unit>(?: |\\.|\"[^\"]{0,40}\"){0,4})"
)
_QUOTES = re.compile(r"\"|\\(?=.)")
_MAX_BOTTOM = 3


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a section: literal text, a run of digits (`0`, `#`), or a part of a date (`y`, `[h]`, `ampm`)."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class _Section:
    parts: tuple[_Part, ...]
    percents: int
    thousands: int
    is_grouped: bool
    condition: tuple[str, float] | None = None
    language: str = "en"

    def holds(self, value: float) -> bool:
        """Return whether the section is for a number."""
        if self.condition is None:
            return True
        sign, bound = self.condition
        return (value < bound and "<" in sign) or (value > bound and ">" in sign) or (value == bound and "=" in sign)


def as_shown(stored: str, value: object, code: str) -> str:
    """Return a cell's text: as shown, with the stored value in brackets if it differs."""
    shown = _shown(value, code)
    return stored if shown is None else both(stored, shown)


def both(stored: str, shown: str) -> str:
    """Return the shown text, followed by the stored one unless it contains that."""
    if not stored or stored in shown.split():
        return shown
    return stored if _ZERO.sub("", stored) == _ZERO.sub("", shown) else f"{shown} ({stored})"


def _shown(value: object, code: str) -> str | None:
    """Return the formatted value; None if the format adds only digits, or is not understood."""
    if fraction := _FRACTION.fullmatch(code.partition(";")[0].strip()):
        return _mixed(value, fraction) if isinstance(value, int | float) and abs(value) < _MAX_NUMBER else None
    sections = _sections(code)
    if sections is None:
        return None
    if isinstance(value, Moment):
        return _moment(value, sections[0])
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _MAX_NUMBER:
        return None
    shown = _number(value, sections)
    return None if shown is None or _PLAIN.fullmatch(shown) else shown


def _mixed(value: float, form: re.Match[str]) -> str:
    """Return a number with a fraction: `2 1/4`."""
    whole, rest = divmod(Fraction(abs(value)), 1) if form["whole"] else (0, Fraction(abs(value)))
    bottom = form["bottom"]
    if bottom.isdigit():
        share = round(rest * int(bottom)), int(bottom)
    else:
        near = rest.limit_denominator(10 ** min(len(bottom), _MAX_BOTTOM) - 1)
        share = near.numerator, near.denominator
    if share[0] == share[1]:
        whole, share = whole + 1, (0, share[1])
    shown = [*([str(whole)] if whole or not share[0] else []), *([f"{share[0]}/{share[1]}"] if share[0] else [])]
    unit = _QUOTES.sub("", form["unit"])
    return f"{'-' if value < 0 else ''}{' '.join(shown)}{unit}".rstrip()


@lru_cache(maxsize=512)
def _sections(code: str) -> tuple[_Section, ...] | None:
    """Return the sections of a format; None if one is not understood."""
    if len(code) > _MAX_CODE or code in ("General", "@", ""):
        return None
    found: list[list[re.Match[str]]] = [[]]
    for part in _PART.finditer(_OF_SYSTEM.get(code, code)):
        if part["sign"] == ";":
            found.append([])
        else:
            found[-1].append(part)
    sections = tuple(map(_section, found[:_MAX_SECTIONS]))
    understood = tuple(section for section in sections if section is not None)
    return understood if len(understood) == len(sections) else None


def _section(found: Sequence[re.Match[str]]) -> _Section | None:
    parts, percents, thousands, is_grouped = list[_Part](), 0, 0, False
    condition: tuple[str, float] | None = None
    language = "en"
    for part in found:
        if part["general"]:
            parts.append(_Part("general", ""))
        elif part["exponent"]:
            parts.append(_Part("exponent", part["exponent"]))
        elif part["digits"]:
            run = part["digits"]
            thousands = len(part["thousands"])
            is_grouped = is_grouped or "," in run.rstrip(",")
            parts.append(_Part("digits", run.replace(",", "")))
        elif part["date"] or part["half"]:
            parts.append(_Part("date", (part["date"] or "ampm").lower()))
        elif part["bracket"] is not None and (stated := _CONDITION.fullmatch(part["bracket"])):
            condition = stated["sign"], float(stated["bound"])
        elif part["bracket"] is not None:
            inner = _bracket(part["bracket"])
            if inner is None:
                return None
            parts.append(inner)
            language = _language(part["bracket"]) or language
        else:
            text = part["quoted"] or part["escaped"] or part["sign"] or (" " if part["room"] else "")
            percents += part["sign"] == "%"
            if part["sign"] in ("/", "?") and any(each.kind == "digits" for each in parts):
                return None  # a fraction
            parts.append(_Part("point" if part["sign"] == "." else "text", text))
    return _Section(tuple(parts), percents, thousands, is_grouped, condition, language)


def _bracket(inner: str) -> _Part | None:
    """Return the currency, the elapsed time or nothing (a colour) that a bracket stands for; None for a condition."""
    if currency := _CURRENCY.fullmatch(inner):
        return _Part("text", currency["sign"])
    if _ELAPSED.fullmatch(inner):
        return _Part("elapsed", inner[0].lower() * min(len(inner), 2))
    return None if inner[:1] in ("<", ">", "=") else _Part("text", "")


def _language(inner: str) -> str:
    """Return the language of a bracket's locale; empty if it has none, or that of the system."""
    currency = _CURRENCY.fullmatch(inner)
    if currency is None:
        return ""
    if currency["name"]:
        return "" if currency["name"].startswith("x-") else currency["name"][:2].lower()
    number = int(currency["locale"] or "0", 16) & _LANGUAGE
    return _LANGUAGES.get(number, "?") if number else ""


def _number(value: float, sections: Sequence[_Section]) -> str | None:
    at = 2 if value == 0 and len(sections) > 2 else 1 if value < 0 and len(sections) > 1 else 0  # noqa: PLR2004
    if any(section.condition for section in sections):
        at = next((number for number, section in enumerate(sections) if section.holds(value)), 0)
    section = sections[at]
    kinds = [part.kind for part in section.parts]
    if "date" in kinds or "elapsed" in kinds or kinds.count("point") > 1:
        return None
    if "digits" not in kinds:
        return _in_words(value, section, is_signed=at == 0)
    if "general" in kinds:
        return None
    if "exponent" in kinds:
        return _scientific(value, section, kinds.index("exponent"))
    first, last = kinds.index("digits"), len(kinds) - 1 - kinds[::-1].index("digits")
    if last - first > (2 if "point" in kinds[first:last] else 0):
        return _masked(value, section, first, last) if value >= 0 else None
    number = abs(Decimal(repr(value))) * 100**section.percents / 1000**section.thousands
    places = section.parts[last].text if last > first or "point" in kinds[:first] else ""
    whole = section.parts[first].text if last > first or "point" not in kinds[:first] else ""
    digits = _digits(number, whole, places, is_grouped=section.is_grouped)
    start = first if whole else kinds.index("point")
    before, after = (
        "".join(part.text for part in parts) for parts in (section.parts[:start], section.parts[last + 1 :])
    )
    minus = "-" if value < 0 and at == 0 and any(digit in digits for digit in "123456789") else ""
    return " ".join(f"{minus}{before}{digits}{after}".split())


def _in_words(value: float, section: _Section, *, is_signed: bool) -> str | None:
    """Return a text with the number as it is, such as `5 pieces`, or one that stands for it, such as `yes`."""
    number = repr(value if is_signed else abs(value)).removesuffix(".0")
    words = "".join(part.text for part in section.parts)
    if not any(map(str.isalpha, words)) or "@" in words:
        return None
    return " ".join("".join(number if part.kind == "general" else part.text for part in section.parts).split())


def _scientific(value: float, section: _Section, at: int) -> str | None:
    """Return a number with a power of ten: `1.23E+04`. The digits before the point set the multiple of the power."""
    kinds = [part.kind for part in section.parts]
    if kinds[:at] not in (["digits"], ["digits", "point", "digits"]) or kinds[at + 1 :] != ["digits"]:
        return None
    whole, places = section.parts[0].text, section.parts[at - 1].text if at > 1 else ""
    number, step = abs(Decimal(repr(value))), max(len(whole), 1)
    power = number.adjusted() // step * step if number else 0
    if _digits(number.scaleb(-power), whole, places, is_grouped=False).partition(".")[0] == f"1{'0' * step}":
        power += step
    digits = _digits(number.scaleb(-power), "0", places, is_grouped=False)
    exponent = section.parts[at].text
    of_power = "-" if power < 0 else exponent[1:].replace("-", "")
    shown = f"{digits}{exponent[0]}{of_power}{str(abs(power)).rjust(len(section.parts[at + 1].text), '0')}"
    return f"-{shown}" if value < 0 else shown


def _masked(value: float, section: _Section, first: int, last: int) -> str | None:
    """Return a number with signs between its digits, such as a phone's: `(000) 000-0000`. None with a point or `%`."""
    if any(part.kind not in ("digits", "text") for part in section.parts) or section.percents or section.is_grouped:
        return None
    digits = f"{Decimal(repr(value)).quantize(Decimal(1), ROUND_HALF_UP):f}".lstrip("0")
    shown: list[str] = []
    for number in range(last, first - 1, -1):
        run = section.parts[number].text
        if section.parts[number].kind == "text":
            shown.append(run)
            continue
        size = len(digits) if number == first else len(run)
        here = digits[max(0, len(digits) - size) :]
        digits = digits[: len(digits) - len(here)]
        shown.append(here.rjust(run.count("0"), "0"))
    before, after = (
        "".join(part.text for part in parts) for parts in (section.parts[:first], section.parts[last + 1 :])
    )
    return " ".join(f"{before}{''.join(reversed(shown))}{after}".split())


def _digits(number: Decimal, whole: str, places: str, *, is_grouped: bool) -> str:
    rounded = number.quantize(Decimal(1).scaleb(-len(places)), ROUND_HALF_UP)
    integer, _, fraction = f"{rounded:f}".partition(".")
    integer = integer.lstrip("0").rjust(whole.count("0"), "0")
    integer = f"{int(integer):,}".rjust(len(integer), "0") if is_grouped and integer else integer
    needed = len(places.rstrip("#?"))
    fraction = fraction[:needed] + fraction[needed:].rstrip("0")
    return f"{integer}.{fraction}" if fraction else integer


def _moment(value: Moment, section: _Section) -> str | None:
    """Return a date or a time as shown."""
    parts = section.parts
    names = any(part.kind == "date" and part.text[0] in "md" and len(part.text) > 2 for part in parts)  # noqa: PLR2004
    if names and section.language not in _MONTHS:
        return None
    of_time = [at for at, part in enumerate(parts) if part.kind in ("date", "elapsed")]
    texts, half = [part.text for part in parts], any(part.text == "ampm" for part in parts if part.kind == "date")
    for number, at in enumerate(of_time):
        before = parts[of_time[number - 1]].text[0] if number else ""
        after = parts[of_time[number + 1]].text[0] if number + 1 < len(of_time) else ""
        is_minute = parts[at].text in ("m", "mm") and (before == "h" or after == "s")
        shown = (
            _elapsed(value, parts[at])
            if parts[at].kind == "elapsed"
            else _part(value, parts[at].text, is_minute, half, section.language)
        )
        if shown is None:
            return None
        texts[at] = shown
    for at, part in enumerate(parts):
        if part.kind == "digits":
            texts[at] = _fraction(value, len(part.text))
    shown = " ".join("".join(texts).split())
    return shown if any(map(str.isdigit, shown)) else None


def _part(value: Moment, letters: str, is_minute: bool, half: bool, language: str) -> str | None:
    """Return a part of a date or time in the form of its letters; None if the value has none."""
    day = value if isinstance(value, date) else None
    clock = _clock(value)
    kind, length = letters[0], len(letters)
    if letters == "ampm":
        return "PM" if clock.hour >= _NOON else "AM"
    if kind in "hs" or is_minute:
        hour = (clock.hour + 11) % 12 + 1 if half else clock.hour
        number = clock.minute if is_minute else hour if kind == "h" else clock.second
        return str(number).rjust(min(length, 2), "0")
    if day is None:
        return None
    if kind == "y":
        return f"{day.year:04}" if length > 2 else f"{day.year % 100:02}"  # noqa: PLR2004
    number, names = (day.month, _MONTHS) if kind == "m" else (day.day, _DAYS)
    if length <= 2:  # noqa: PLR2004
        return str(number).rjust(length, "0")
    return _name(names[language][day.month - 1 if kind == "m" else day.weekday()], kind, length, language)


def _name(name: str, kind: str, length: int, language: str) -> str:
    """Return the name of a month or a day, of as many letters as its format has."""
    if length == 3:  # noqa: PLR2004
        of_month = _SHORT.get(name) if kind == "m" and language in ("de", "fr", "nl") else None
        return of_month or name[: 3 if kind == "m" else _SHORT_DAYS.get(language, 3)]
    return name[:1] if length == 5 else name  # noqa: PLR2004


def _clock(value: Moment) -> time:
    if isinstance(value, datetime):
        return value.time()
    if isinstance(value, timedelta):
        return (datetime(1, 1, 1, tzinfo=UTC) + value % timedelta(days=1)).time()
    return value if isinstance(value, time) else time()


def _elapsed(value: Moment, part: _Part) -> str | None:
    if not isinstance(value, timedelta):
        return None
    unit = {"h": 3600, "m": 60, "s": 1}[part.text[0]]
    return str(int(abs(value.total_seconds())) // unit).rjust(len(part.text), "0")


def _fraction(value: Moment, places: int) -> str:
    return f"{_clock(value).microsecond:06}"[:places]

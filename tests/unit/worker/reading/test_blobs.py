"""Bytes written as text are one placeholder. Whatever people write, and hashes that they search for, are none."""

from __future__ import annotations

import base64
import binascii
import json
import math
import random
from functools import partial
from itertools import pairwise
from uuid import UUID

import numpy as np
import pytest

from schemas.content.source import ChunkSettings
from tests.pumps import grows_too_fast, seconds
from tests.unit.worker.chunk.chunking import Characters, cut
from worker.reading import embedded
from worker.reading.blobs import blobs

RANDOM = random.Random(7)
BYTES = RANDOM.randbytes(400_000)
BASE64, HEX = base64.b64encode(BYTES).decode(), BYTES.hex()
URL_SAFE = base64.urlsafe_b64encode(BYTES[:6_000]).decode()


def wrapped(text: str, width: int, start: str = "", joint: str = "\n", end: str = "") -> str:
    return joint.join(f"{start}{text[at : at + width]}{end}" for at in range(0, len(text), width))


def letters(alphabet: str, length: int) -> str:
    return "".join(RANDOM.choice(alphabet) for _ in range(length))


def dumped(form: str, joint: str = " ", size: int = 4_096) -> str:
    """A dump of sixteen bytes on each line."""
    lines = []
    for at in range(0, size, 16):
        line = BYTES[at : at + 16]
        shown = "".join(chr(byte) if 32 < byte < 127 else "." for byte in line)
        halves = [(half.hex(joint) if joint else half.hex(" ", 2)) for half in (line[:8], line[8:])]
        lines.append(form.format(at, *halves, shown) + "\n")
    return "".join(lines)


TAB, QUOTE, BACKSLASH, INDENTED_BYTES = "\t", "'", "\\\n  ", "    b'"
LINES = wrapped(BASE64[:8_000], 76).split("\n")
PEM = wrapped(base64.b64encode(BYTES[:1_201]).decode(), 64)
QUOTED = wrapped(BASE64[:8_000], 100, '    "', end='"')
JOINED = wrapped(BASE64[:8_000], 100, '"', " +\n  ", '"')
BLOBS = {
    "picture in Markdown": ("md", f"# A\n![x](data:image/png;base64,{BASE64})\nend", "[base64, 400 kB, image/png]"),
    "picture in JSON": ("json", f'{{"a": "data:image/png;base64,{BASE64}", "b": 1}}', "[base64, 400 kB, image/png]"),
    "escaped slashes": ("json", f'{{"a":"data:image/png;base64,{BASE64}"}}'.replace("/", r"\/"), "400 kB, image/png]"),
    "picture in SVG": (
        "svg",
        f'<svg><image href="data:image/png;base64,\n{wrapped(BASE64, 76)}"/></svg>',
        "image/png]",
    ),
    "small picture": ("md", f"![x](data:image/gif;base64,{BASE64[:120]})", "[base64, 90 bytes, image/gif]"),
    "base64 in YAML": ("yaml", f"a: {BASE64[:80_000]}\nb: 1", "a: [base64, 60 kB]\nb: 1"),
    "block in YAML": ("yaml", f"a: |\n{wrapped(BASE64[:8_001], 76, '  ')}\nb: 1", "[base64, 6 kB]\nb: 1"),
    "hex in code": ("py", f'KEY = "{HEX[:8_000]}"\n', '"[hex, 4 kB]"'),
    "hex behind 0x": ("json", f'{{"bytecode": "0x{HEX[:8_000]}"}}', "[hex, 4 kB]"),
    "capital hex": ("txt", HEX[:2_000].upper(), "[hex, 1 kB]"),
    "dump of hex": ("txt", wrapped(HEX[:6_000], 60), "[hex, 3 kB]"),
    "strings in code": ("py", f"X = (\n{QUOTED}\n)\n", '"[base64, 6 kB]"'),
    "joined strings": ("js", f"x = {JOINED};", '"[base64, 6 kB]"'),
    "lines in JSON": ("json", json.dumps([f"{line}\n" for line in LINES], indent=1), '"[base64, 6 kB]'),
    "certificate": (
        "pem",
        f"-----BEGIN CERTIFICATE-----\n{PEM}\n-----END CERTIFICATE-----\n",
        "[base64, 1 kB]\n-----END",
    ),
    "key in JSON": ("json", json.dumps({"k": f"-----BEGIN KEY-----\n{PEM}\n-----END KEY-----\n"}), "1 kB]\n-----END"),
    "safe for addresses": ("txt", f"token {URL_SAFE} end", "token [base64, 6 kB] end"),
    "column of a table": ("csv", f"a,b\n1,{BASE64[:4_000]}\n", "1,[base64, 3 kB]"),
    "zeros among bytes": ("txt", base64.b64encode(b"\0" * 600 + BYTES[:600]).decode(), "[base64, 1 kB]"),
    "base32": ("txt", base64.b32encode(BYTES[:4_000]).decode(), "[base32, 4 kB]"),
    "text in base64": (
        "txt",
        base64.b64encode(b"The quick brown fox jumps over a lazy dog. " * 40).decode(),
        "[base64, 2 kB]",
    ),
}
BLOBS |= {
    "hexdump -C": ("txt", f"above\n{dumped('{:08x}  {} {}  |{}|')}end", "above\n[hex dump, 4 kB]\nend"),
    "xxd": ("txt", f"{dumped('{:08x}: {} {}  {}', joint='')}end", "[hex dump, 4 kB]\nend"),
    "a dump in Markdown": ("md", f"# A\n\n```\n{dumped('    0x{:04x}:  {} {}  {}')}```\n", "[hex dump, 4 kB]\n```"),
    "od": (
        "log",
        "".join(f"{at:07o} {BYTES[at : at + 16].hex(' ', 2)}\n" for at in range(0, 4_096, 16)),
        "[hex dump, 4 kB]",
    ),
    "uuencode": (
        "txt",
        "begin 644 a.bin\n"
        + "".join(binascii.b2a_uu(BYTES[at : at + 45]).decode() for at in range(0, 4_510, 45))
        + "`\nend\n",
        "begin 644 a.bin\n[uuencode, 5 kB]\n",
    ),
    "Ascii85": ("txt", f"a {base64.a85encode(BYTES[:4_000], adobe=True, wrapcol=80).decode()} b", "a [base85, 4 kB] b"),
    "patch of git": (
        "diff",
        "GIT binary patch\nliteral 5200\n"
        + "".join(f"z{base64.b85encode(BYTES[at : at + 52]).decode()}\n" for at in range(0, 5_200, 52)),
        "literal 5200\n[base85, 5 kB]",
    ),
    "array in C": (
        "c",
        "unsigned char a[] = {\n"
        + ",\n".join("  " + ", ".join(f"0x{byte:02x}" for byte in BYTES[at : at + 12]) for at in range(0, 4_800, 12))
        + "\n};\n",
        "a[] = {\n  [bytes, 5 kB]\n};",
    ),
    "escaped bytes": (
        "py",
        'DATA = b"' + "".join(f"\\x{byte:02x}" for byte in BYTES[:4_000]) + '"\n',
        '"[bytes, 4 kB]"',
    ),
}
BLOBS |= {
    "property list": (
        "plist",
        f"<data>\n{wrapped(base64.b64encode(BYTES[:6_000]).decode(), 52, TAB)}\n</data>",
        "<data>\n\t[base64, 6 kB]\n</data>",
    ),
    "bytes in Python": (
        "py",
        f"X = (\n{wrapped(BASE64[:8_000], 72, INDENTED_BYTES, end=QUOTE)}\n)\n",
        "[base64, 6 kB]",
    ),
    "base36": ("txt", f"a {letters('0123456789abcdefghijklmnopqrstuvwxyz', 8_000)} b", "a [base36, 5 kB] b"),
    "octal escapes": (
        "c",
        'char a[] = "' + "".join(f"\\{byte:03o}" for byte in BYTES[:4_000]) + '";',
        '"[bytes, 4 kB]"',
    ),
    "escapes of JavaScript": (
        "js",
        'a = "' + "".join(f"\\u00{byte:02x}" for byte in BYTES[:4_000]) + '";',
        '"[bytes, 4 kB]"',
    ),
    "bytes in an address": (
        "css",
        f"url(data:image/png,{''.join(f'%{byte:02X}' for byte in BYTES[:4_000])})",
        "[bytes, 4 kB]",
    ),
    "array in Java": (
        "java",
        f"byte[] a = {{{', '.join(f'(byte) 0x{byte:02x}' for byte in BYTES[:4_000])}}};",
        "{(byte) [bytes, 4 kB]};",
    ),
    "registry": (
        "txt",
        f'"x"=hex:{wrapped(BYTES[:6_000].hex(","), 75, joint=BACKSLASH)}\n"y"="z"',
        '"x"=hex:[bytes, 6 kB]',
    ),
    "hex with blanks": ("txt", f"a\n{wrapped(BYTES[:6_000].hex(' '), 48)}\nb", "a\n[bytes, 6 kB]\nb"),
    "hex with colons": ("txt", f"a:\n{wrapped(BYTES[:6_000].hex(':'), 45, '    ')}\nb", "[bytes, 6 kB]\nb"),
    "Intel's hex": (
        "hex",
        "".join(f":10{at:04X}00{BYTES[at : at + 16].hex().upper()}FF\n" for at in range(0, 8_000, 16)),
        "[hex dump, ",
    ),
    "Motorola's hex": (
        "s19",
        "".join(f"S315{at:08X}{BYTES[at : at + 16].hex().upper()}FF\n" for at in range(0, 8_000, 16)),
        "[hex dump, ",
    ),
}
BLOBS |= {
    "numbers in JSON": ("json", json.dumps({"data": [*BYTES[:200_000]]}), "[[bytes, 200 kB]]"),
    "numbers on lines": ("json", json.dumps({"data": [*BYTES[:20_000]]}, indent=4), "[bytes, 20 kB]"),
    "numbers in code": ("js", f"const wasm = new Uint8Array([{','.join(map(str, BYTES[:8_000]))}]);", "[bytes, 8 kB]"),
    "numbers in C": (
        "c",
        "unsigned char a[] = {\n" + wrapped(", ".join(f"{byte:3}" for byte in BYTES[:4_800]), 80, "  ") + "\n};\n",
        "[bytes, 5 kB]",
    ),
    "numbers in Java": (
        "java",
        f"byte[] a = {{{', '.join(str(byte - byte // 128 * 256) for byte in BYTES[:4_000])}}};",
        "{[bytes, 4 kB]};",
    ),
    "short hex": ("c", f"char a[] = {{{', '.join(map(hex, BYTES[:4_000]))}}};", "[bytes, 4 kB]"),
    "capital 0X": ("c", f"char a[] = {{{','.join(f'0X{byte:02X}' for byte in BYTES[:4_000])}}};", "[bytes, 4 kB]"),
    "pairs of bytes": (
        "h",
        "const uint16_t a[] PROGMEM = {\n"
        + ",\n".join("  " + ", ".join(f"0x{BYTES[at + n]:02X}{BYTES[n]:02X}" for n in range(9)) for at in range(300))
        + "};\n",
        "[bytes, 5 kB]",
    ),
    "eight numbers on a line": (
        "txt",
        "".join(f"{','.join(map(str, BYTES[at : at + 8]))},\n" for at in range(0, 4_000, 8)),
        "[bytes, 4 kB]",
    ),
    "two pairs of bytes on a line": (
        "h",
        "".join(f"0x{BYTES[at : at + 2].hex()}, 0x{BYTES[at + 2 : at + 4].hex()},\n" for at in range(0, 10_000, 4)),
        "[bytes, 10 kB]",
    ),
    "bytes of Python": ("py", f"DATA = {BYTES[:8_000]!r}\n", "[bytes, "),
    "lines of bytes of Python": (
        "py",
        "DATA = (\n" + "".join(f"    {BYTES[at : at + 20]!r}\n" for at in range(0, 8_000, 20)) + ")\n",
        "[bytes, ",
    ),
    "base85": ("py", f'DATA = b"{base64.b85encode(BYTES[:8_000]).decode()}"\n', "[random characters, 8 kB]"),
    "base85 on lines": (
        "py",
        f'DATA = b"""\n{wrapped(base64.b85encode(BYTES[:8_000]).decode(), 74)}\n"""\n',
        '"""\n[random characters, 8 kB]\n"""',
    ),
    "signs": ("json", json.dumps({"a": letters("".join(map(chr, range(33, 127))), 8_000)}), "[random characters, "),
}
WORDS = np.frombuffer(BYTES[:16_000], dtype="<u4")
BLOBS |= {
    "words in C": ("c", f"const uint32_t a[] = {{{', '.join(f'0x{word:08x}u' for word in WORDS)}}};", "[bytes, 16 kB]"),
    "long words in C": (
        "c",
        "uint64_t a[] = {\n"
        + wrapped(", ".join(f"0x{word:016X}ULL" for word in np.frombuffer(BYTES[:24_000], dtype="<u8")), 92, "  ")
        + "};\n",
        "[bytes, 24 kB]",
    ),
    "words in JSON": ("json", json.dumps({"a": WORDS.tolist()}), "[[bytes, 16 kB]]"),
    "signed words": ("json", json.dumps({"a": WORDS.view("<i4").tolist()}, indent=1), "[bytes, 16 kB]"),
    "bytes for an assembler": (
        "asm",
        "a:\n"
        + "".join(
            f"\t.byte {', '.join(f'0x{byte:02x}' for byte in BYTES[at : at + 16])}\n" for at in range(0, 8_000, 16)
        ),
        "[bytes, 8 kB]",
    ),
    "words for an assembler": ("asm", "a:\n" + "".join(f"\t.long\t0x{word:08x}\n" for word in WORDS), "[bytes, 16 kB]"),
    "data for an assembler": (
        "asm",
        "a:\n"
        + "".join(f"  db {','.join(f'0x{byte:02X}' for byte in BYTES[at : at + 16])}\n" for at in range(0, 8_000, 16)),
        "[bytes, 8 kB]",
    ),
    "array in Pascal": ("pas", f"a = ({', '.join(f'${byte:02X}' for byte in BYTES[:8_000])});", "([bytes, 8 kB]);"),
    "array in Basic": ("bas", f"a = Array({', '.join(f'&H{byte:02X}' for byte in BYTES[:8_000])})", "([bytes, 8 kB])"),
    "hex with hyphens": ("txt", f"a {BYTES[:8_000].hex('-')} b", "a [bytes, 8 kB] b"),
    "hex with dots": ("txt", f"a {BYTES[:8_000].hex('.').upper()} b", "a [bytes, 8 kB] b"),
    "lines joined by blanks": (
        "yaml",
        f"a: {wrapped(BASE64[:6_080], 76).replace(chr(10), ' ')}\n",
        "a: [base64, 5 kB]",
    ),
    "lines of a mail": (
        "txt",
        f"<img src=3D'data:image/png;base64,{wrapped(BASE64[:6_000], 75, end='=')}\n'>",
        "[base64, 4 kB, image/png]",
    ),
    "a dump of a debugger": (
        "log",
        "".join(
            f"{at:08x}  {BYTES[at : at + 8].hex(' ')}-{BYTES[at + 8 : at + 16].hex(' ')}  ....\n"
            for at in range(0, 4_096, 16)
        ),
        "[hex dump, 4 kB]",
    ),
    "od -b": (
        "log",
        "".join(f"{at:07o} {' '.join(f'{byte:03o}' for byte in BYTES[at : at + 16])}\n" for at in range(0, 4_096, 16)),
        "[hex dump, 4 kB]",
    ),
}
IDS = [[URL_SAFE[at : at + size] for at in range(0, 100 * size, size)] for size in (8, 11, 12, 16, 21)]
UUIDS = [str(UUID(bytes=BYTES[at : at + 16])) for at in range(0, 3_200, 16)]
NO_BLOBS = {
    "long words": "Rinderkennzeichnungsfleischetikettierungsüberwachungsaufgabenübertragungsgesetz " * 20,
    "compounds without blanks": "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunterbeamtengesellschaft"
    * 12,
    "hashes, one on a line": wrapped(HEX[:6_400], 64),
    "short hashes": wrapped(HEX[:4_000], 40),
    "hashes in base64": "\n".join(base64.b64encode(BYTES[at : at + 32]).decode() for at in range(0, 3_200, 32)),
    "integrity of packages": "\n".join(f"sha512-{BASE64[at : at + 86]}==" for at in range(0, 8_600, 86)),
    "a list of hashes": ",".join(f'"{HEX[at : at + 128]}"' for at in range(0, 12_800, 128)),
    "lines of UUIDs": "\n".join(UUIDS),
    "a row of UUIDs": ",".join(UUIDS),
    "DNA": letters("ACGT", 5_000),
    "DNA on lines": wrapped(letters("ACGT", 5_000), 60),
    "a protein": wrapped(letters("ACDEFGHIKLMNPQRSTVWY", 3_000), 60),
    "an address": f"https://example.org/a/{URL_SAFE[:1_000]}?b={URL_SAFE[:600]}",
    "a JWT": f"eyJhbGciOiJSUzI1NiJ9.eyJ{URL_SAFE[:900]}.{URL_SAFE[:342]}",
    "a key for SSH": f"ssh-rsa AAAAB3NzaC1yc2E{BASE64[:372]} me@example.org",
    "slugs": "-".join(["how-we-moved-the-search-of-two-million-documents"] * 20),
    "constants": "_".join(["MAX_NUMBER_OF_RETRIES_BEFORE_FAILURE"] * 20),
    "camel case": "AbstractSingletonProxyFactoryBeanWithGenericTypeArguments" * 15,
    "minified code": "function(e,t){var n=e.x1,r=t.y2;return n&&r?o(n,i(r)):null};" * 200,
    "a generated table": "\n".join(f"    0x{n:02x}, 0x{n ^ 85:02x}, 0x{n ^ 170:02x}," for n in range(256)),
    "a line of bytes": ",".join(f"0x{byte:02x}" for byte in BYTES[:1_000]),
    "digits": letters("0123456789", 2_000),
    "Chinese": letters("的一是了我不人在他有这个上们来到时大地为子中你说生国年着就那和要她出也得里后自以会", 2_000),
    "lines of paths": "\n".join(f"/home/u1/Src/V2/Main3/Java/Com/Acme4/Invoice/Foo/Bar7/Baz{n}" for n in range(10, 90)),
    "lines of names": "\n".join(
        f"_ZNSt8_Rb_treeISsSt4pairIKSsSsESt10_Select1stIS2_ESt4lessE{n}" for n in range(10, 90)
    ),
    "names with numbers": "Http2ServerV1ErrorHandlerX86ConfigUtf8" * 20,
    "a path with numbers": "/Users/Max/Documents/2024/Q1/Report-A1/Draft-02/Img-0012" * 20,
    "hashes with their name": "\n".join(f"sha384-{BASE64[at : at + 64]}" for at in range(0, 6_400, 64)),
    "a path": "/usr/share/some/very/deep/folder" * 30,
    "rules": "-" * 1_000 + "\n" + "=" * 1_000 + "\n" + "_" * 1_000 + "\n" + "a" * 1_000,
    "a table of years": "\n".join(f"{year} 10 20 30 40 50 60 70 80" for year in range(1950, 2020)),
    "a short dump": dumped("{:08x}  {} {}  |{}|", size=64),
    "a table of bytes": ", ".join(f"0x{byte:02x}" for byte in BYTES[:2_047]),
    "lines of words": "MAKE SURE THAT EACH LINE OF THIS LETTER IS OF THE SAME LENGTH\n" * 9,
    "an array of words": ", ".join(f"0x{number:08x}" for number in range(3_000)),
    "hashes of 56 digits": wrapped(HEX[:5_600], 56),
    "keys of a service": "\n".join(f"sk-{BASE64[at : at + 48]}" for at in range(0, 4_800, 48)),
    "addresses of network cards": "\n".join(BYTES[at : at + 6].hex(":") for at in range(0, 24_000, 6)),
    "fingerprints": "\n".join(BYTES[at : at + 20].hex(":").upper() for at in range(0, 24_000, 20)),
    "a row of numbers": ",".join(f"{byte % 90 + 10}" for byte in BYTES[:6_000]),
    "Chinese in escapes": "".join(f"\\x{byte:02x}" for byte in "\u5927\u718a\u732b".encode() * 400),
    "Chinese in octal": "".join(f"\\{byte:03o}" for byte in "\u5927\u718a\u732b".encode() * 400),
    "Chinese in an address": "".join(f"%{byte:02X}" for byte in "\u5927\u718a\u732b".encode() * 400),
    "pulses": ", ".join(str(60 + byte // 2) for byte in BYTES[:6_000]),
    "a table of sines": ", ".join(str(int(127 * math.sin(number / 300))) for number in range(6_000)),
    "a table in order": ", ".join(str(number // 32) for number in range(8_000)),
    "rows of a table": "\n".join(",".join(map(str, BYTES[at : at + 40])) for at in range(0, 8_000, 40)),
    "a column with commas": "".join(f"{byte},\n" for byte in BYTES[:6_000]),
    "columns with commas": "".join(f"{', '.join(map(str, BYTES[at : at + 7]))},\r\n" for at in range(0, 7_000, 7)),
    "a table of code points": "\n".join(
        f"0x{0xA140 + at:04X}\t0x{BYTES[2 * at : 2 * at + 2].hex()}" for at in range(3_000)
    ),
    "a table of three columns": "\n".join(
        f"0x{at:04x}, 0x{BYTES[at : at + 2].hex()}, 0x{BYTES[2 * at : 2 * at + 2].hex()}" for at in range(3_000)
    ),
    "colours": ", ".join(f"[{BYTES[at]}, {BYTES[at + 1]}, {BYTES[at + 2]}]" for at in range(3_000)),
    "numbers with points": ",".join(f"{byte}.5" for byte in BYTES[:6_000]),
    "marks of a survey": ", ".join(str((10, 90, 150, 200)[byte % 4]) for byte in BYTES[:6_000]),
    "numbers with wide blanks": ",\u00a0".join(str(byte * 3) for byte in BYTES[:6_000]),
    "ids of devices": ", ".join(f"0x{0x1000 + 64 * (byte % 16) + byte % 64:04X}" for byte in BYTES[:6_000]),
    "Cyrillic code points": ", ".join(f"0x04{0x10 + byte % 64:02x}" for byte in BYTES[:6_000]),
    "large numbers": ",".join(str(3 * byte) for byte in BYTES[:6_000]),
    "a table of letters": ", ".join(f"0x{number:04x}" for number in range(0x4E00, 0x5E00)),
    "German in escapes": r"F\xfcr M\xfcnchen und K\xf6ln gilt: Stra\xdfen sind sch\xf6n, " * 200,
    "control signs": r"\x02id\x03name\x02to\x03key" * 300,
    "lines of addresses": "\n".join(
        f"https://example.org/Shop/Item-{n}/A{n * 7919 % 10_007}?Utm_Source=Mail&ID={n}#Top" for n in range(200)
    ),
    "a source map": "AAAA,SAASA,EAAEC,GACX,OAAOA,CAAC;IACNF,GAAG,CAACG,KAAKC;" * 100,
    "minified styles": ".aB-1{margin:0;color:#FFF}.C_d2>a:hover{background:url(/i.PNG)}" * 100,
    "words and numbers": "alpha1beta2gamma3delta4omega5" * 40,
    "letters only": "abcdefghij" * 100,
    "addresses in memory": ", ".join(f"0x{0x7FFE_0000 + 64 * number * 7 % 65_521:08x}" for number in range(3_000)),
    "colours of a picture": ", ".join(f"0xFF{BYTES[at : at + 3].hex()}" for at in range(3_000)),
    "ids in a table": ", ".join(str(1_500_000_000 + 7_919 * byte) for byte in BYTES[:3_000]),
    "times": ",".join(str(1_700_000_000 + number * 37) for number in range(3_000)),
    "amounts": ", ".join(str(byte * 256 + 10_000) for byte in BYTES[:6_000]),
    "hashes in a row": " ".join(f"sha384-{BASE64[at : at + 64]}" for at in range(0, 640, 64)),
    "variables": ", ".join(f"$f{number:04x}" for number in range(3_000)),
    "ids of ten digits": json.dumps([10**9 + int(word) * 3 // 4 for word in WORDS]),
    "prices": " ".join(f"${10 + byte % 90}," for byte in BYTES[:6_000]),
    "prices of Basic": ", ".join(f"&H{10 + byte % 90}" for byte in BYTES[:6_000]),
    "parameters": "$1 ,$2 " * 3_000,
    "tokens with an end": "\n".join(f"{BASE64[at : at + 63]}=" for at in range(0, 6_300, 63)),
    "addresses of cards in a row": " ".join(BYTES[at : at + 6].hex("-") for at in range(0, 24_000, 6)),
}
for ids in IDS:
    NO_BLOBS |= {
        f"ids of {len(ids[0])} signs": json.dumps(ids, separators=(",", ":")),
        f"objects with ids of {len(ids[0])} signs": json.dumps(
            [{"id": each, "k": each[::-1]} for each in ids], separators=(",", ":")
        ),
        f"a row of {len(ids[0])} signs in quotes": ",".join(f"'{each}'" for each in ids),
        f"elements of {len(ids[0])} signs": "".join(f"<A>{each}</A>" for each in ids),
    }


@pytest.mark.parametrize("case", BLOBS)
def test_bytes_are_a_placeholder_and_one_chunk(case: str) -> None:
    extension, text, expected = BLOBS[case]
    chunks = cut(text, f"a.{extension}")
    assert len(chunks) == 1
    assert expected in chunks[0].embedded_text
    assert chunks[0].tokens < 80
    assert chunks[0].text == text.strip()


@pytest.mark.parametrize("case", NO_BLOBS)
def test_what_people_write_or_search_for_stays(case: str) -> None:
    text = NO_BLOBS[case]
    assert not blobs(text)
    assert not blobs(f'{{"a": "{text}"}}\n')


def test_text_around_a_blob_is_cut_as_without_it() -> None:
    lines = [f"Line {number} tells of one thing and of another one." for number in range(200)]
    text = "\n".join([*lines[:100], f"![x](data:image/png;base64,{BASE64})", *lines[100:]])
    chunks = cut(text, "a.md", settings=ChunkSettings(size=256, overlap=0))
    assert len(chunks) <= len(cut("\n".join(lines), "a.md", settings=ChunkSettings(size=256, overlap=0))) + 1
    assert [piece for piece in chunks if "[base64, 400 kB, image/png]" in piece.embedded_text]
    for piece, following in pairwise(chunks):
        assert piece.end_line <= following.start_line


def test_an_array_of_many_characters_has_few_chunks() -> None:
    assert len(cut(json.dumps({"data": [*BYTES] * 2}), "a.json")) <= 8


@pytest.mark.parametrize("size", [1_400_000, 3_000_000])
def test_a_chunk_has_a_maximum_of_written_characters(size: int) -> None:
    text = f'{{"a": "{base64.b64encode(RANDOM.randbytes(size)).decode()}"}}'
    chunks = cut(text, "a.json", tokenizer=Characters(each=3))
    assert max(len(piece.text) for piece in chunks) <= 1_000_000
    assert len(chunks) <= size // 200_000


def test_characters_are_those_that_are_read() -> None:
    settings = ChunkSettings(unit="characters", size=500, overlap=50)
    chunks = cut(f"# A\n\nBefore it.\n\n{BASE64}\n\nBehind it.\n", "a.md", settings=settings)
    assert len(chunks) == 1
    assert "[base64, 400 kB]" in chunks[0].embedded_text


@pytest.mark.parametrize(
    "part",
    [
        "\\",
        "\\\\n",
        "&",
        "&#",
        "data:",
        "data:a/b;",
        "A1b" * 19 + "\n",
        "=",
        "A1b2" * 300,
        "{",
        '{\\"',
        "\\/",
        "<rt>",
        "://",
        "a:\\u",
        "\\101",
        "%C3",
        "=?a?q?b",
        "=C3=\n",
        "a\\\n",
        "\n0000 00 00 00 00",
        "0x00 \n",
        "1,",
        "0x1,",
        "-1, ",
        "\\xff\\",
        "\\xff" + "a" * 60,
        "!aA0" * 150 + " ",
        "!aA0" * 15 + "\n",
    ],
)
@pytest.mark.parametrize("type_", ["json", "code", "markdown", "tex", "text"])
def test_hostile_texts_take_linear_time(part: str, type_: str) -> None:
    assert not grows_too_fast(partial(embedded, type_), lambda size: part * (size // len(part)), 200_000)


@pytest.mark.parametrize("part", ['Ma"s ', '"Ma"s ', '"Au"s ', '"Uber '])
def test_a_quotation_mark_beside_a_word_takes_as_long_as_one_within(part: str) -> None:
    beside, within = (
        min(seconds(partial(embedded, "tex"), each * (500_000 // len(each)), 20) for _ in range(3))
        for each in (part, 'a"se ')
    )
    assert beside < 4 * within

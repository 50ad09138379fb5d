# SPDX-License-Identifier: MIT
"""The page of quern profile as a browser draws it, in light and dark."""

import os
import struct
import subprocess
import zlib

import pytest
from conftest import TARGET, TOP

WIDTH, HEIGHT = 1200, 1400
BROWSER_S = 600


@pytest.fixture(scope="module")
def browser():
    done = subprocess.run(
        ["sh", TOP / "tools/browser.sh"], capture_output=True, text=True, timeout=BROWSER_S
    )
    if done.returncode:
        pytest.skip(done.stderr.strip())
    return done.stdout.strip()


def pixels(path):
    """Rows of (red, green, blue) of an 8-bit PNG without interlacing."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, packed, header = 8, b"", None
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        header = struct.unpack(">IIBBBBB", body) if kind == b"IHDR" else header
        packed += body if kind == b"IDAT" else b""
        at += 12 + length
    width, height, depth, color, _, _, interlaced = header
    assert depth == 8 and color in (2, 6) and not interlaced
    step = 3 if color == 2 else 4
    raw, rows, before = zlib.decompress(packed), [], bytearray(width * step)
    for y in range(height):
        start = y * (width * step + 1)
        line = bytearray(raw[start + 1 : start + 1 + width * step])
        unfilter(raw[start], line, before, step)
        rows.append(line)
        before = line
    return width, height, step, rows


def unfilter(how, line, above, step):
    for i in range(len(line)):
        a = line[i - step] if i >= step else 0
        b, c = above[i], above[i - step] if i >= step else 0
        if how == 1:
            line[i] = (line[i] + a) & 255
        elif how == 2:
            line[i] = (line[i] + b) & 255
        elif how == 3:
            line[i] = (line[i] + (a + b) // 2) & 255
        elif how == 4:
            p = a + b - c
            near = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))
            line[i] = (line[i] + near[2]) & 255


def shoot(browser, page, picture, scheme, tmp_path):
    done = subprocess.run(
        [browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
         "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}",
         f"--blink-settings=preferredColorScheme={scheme}", f"--window-size={WIDTH},{HEIGHT}",
         f"--screenshot={picture}", f"file://{page}"],
        capture_output=True, text=True, timeout=BROWSER_S,
        env={**os.environ, "HOME": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0 and picture.exists(), done.stderr
    return pixels(picture)


def color(image, x, y):
    _, _, step, rows = image
    return tuple(rows[y][x * step : x * step + 3])


def share(image, near):
    """Share of pixels within 12 of a colour, of a sparse sample."""
    width, height, step, rows = image
    hits = total = 0
    for y in range(0, height, 2):
        for x in range(0, width, 2):
            total += 1
            hits += all(abs(a - b) <= 12 for a, b in zip(rows[y][x * step : x * step + 3], near))
    return hits / total


def luminance(rgb):
    parts = [c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in rgb]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(a, b):
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


# page, card, ink, soft, accent: as in tools/profile/profile_page.css
SCHEMES = {
    "light": (1, (251, 251, 250), (255, 255, 255), (29, 31, 33), (93, 98, 104), (168, 67, 31)),
    "dark": (0, (22, 24, 26), (30, 33, 36), (231, 232, 232), (163, 169, 175), (240, 152, 111)),
}


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_browser_draws_the_page(warm, browser, tmp_path, scheme):
    number, page, card, ink, soft, accent = SCHEMES[scheme]
    path = tmp_path / "page.html"
    warm("profile", "--target", TARGET, "--m", 1, "wq=nf4 n=1024 k=2048 a=bf16", "--html", path)
    image = shoot(browser, path, tmp_path / f"{scheme}.png", number, tmp_path)
    assert image[:2] == (WIDTH, HEIGHT)
    assert color(image, 5, 5) == page
    # cards, text and the roofline's point and label are there
    assert share(image, card) > 0.4
    assert 0.005 < share(image, ink) < 0.2
    assert share(image, soft) > 0.002
    assert share(image, accent) > 0.0003
    # text stands out from what it is on, as WCAG wants it of small text
    for text in (ink, soft, accent):
        assert contrast(text, card) >= 4.5 and contrast(text, page) >= 4.5
    # nothing runs over the right edge of the column
    assert all(color(image, x, y) == page for x in (2, WIDTH - 3) for y in range(0, HEIGHT, 7))

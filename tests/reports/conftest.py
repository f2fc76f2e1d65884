"""The browser that the tests of a page share, and a page that one test after the other opens anew."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

CHROMIUM = os.environ.get("NPUSIM_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium, headless, for the tests of a file.

    Those of another file may run event loops of their own, which Playwright does not let anybody start beside its own.
    """
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed: apt-get install chromium, or set NPUSIM_CHROMIUM")
    with playwright.sync_playwright() as driver:
        found = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


def emptied(page: Any) -> Any:
    """Return the page as a new one is: blank, without emulation, the mouse in the corner.

    A context of its own costs three times as much CPU time as opening a report in one that is there.
    """
    page.goto("about:blank")
    page.emulate_media(media="null", color_scheme="null", reduced_motion="null")
    page.mouse.move(0, 0)
    return page

"""A browser page under watch, and what its pixels show; for the tests of the explorer."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

FLAGS = [
    "--no-sandbox",  # tests may run as root
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",  # a browser under test looks up nothing
    "--disable-component-update",
    "--disable-sync",
]
PATIENCE = 240_000  # milliseconds: UMAP takes a minute to load on a machine that has much to do


@dataclass
class Watched:
    """A page, and everything that must not happen on it."""

    page: Any
    address: str
    faults: list[str] = field(default_factory=list)

    def open(self, path: str, selector: str) -> Any:
        self.page.goto(self.address + path)
        self.page.wait_for_selector(selector)
        return self.page


def watch(browser: Any, address: str, **options: object) -> Watched:
    """Open an empty page that writes down errors, refusals of the security policy, and requests to other places."""
    context = browser.new_context(**options)
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    watched = Watched(page, address)
    expected = re.compile(r"Failed to load resource: (the server responded with a status of (404|422)|net::ERR_CONNECTION_REFUSED)")
    page.on("console", lambda message: message.type == "error" and not expected.match(message.text) and watched.faults.append(message.text))
    page.on("pageerror", lambda error: watched.faults.append(str(error)))
    page.on("request", lambda request: request.url.startswith((address, "data:", "blob:")) or watched.faults.append(f"asked {request.url}"))
    page.add_init_script("addEventListener('securitypolicyviolation', (event) => console.error(`policy: ${event.violatedDirective}`))")
    return watched


def colours(page: Any, selector: str) -> int:
    """Return how many clearly different colours (of 4,096) a part of the page really shows: a blank chart shows a few."""
    picture = Image.open(io.BytesIO(page.locator(selector).first.screenshot())).convert("RGB")
    seen = picture.quantize(256).convert("RGB").getcolors(2**24) or []
    return len({tuple(channel // 16 for channel in colour) for number, colour in seen if number > 12})


def coloured(page: Any, selector: str) -> int:
    """Return how many pixels of a part of the page have a colour, not a shade of grey."""
    picture = Image.open(io.BytesIO(page.locator(selector).first.screenshot())).convert("HSV")
    return sum(saturation > 90 for saturation in picture.getchannel("S").tobytes())

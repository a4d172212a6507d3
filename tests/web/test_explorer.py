"""The explorer in a real browser, on a real server: what a person does and sees."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from browsing import FLAGS, PATIENCE, Watched, coloured, colours, watch
from serving import EMOJI, HEBREW, PARENT, SCRIPT, running

bring = import_module if os.environ.get("RELCODE_REQUIRE_BROWSER") or os.environ.get("CI") else pytest.importorskip
playwright_api = bring("playwright.sync_api")
pytestmark = pytest.mark.slow

ASK = "/ask?" + urlencode({"head": "Ada_4", "relation": "grandparent"})
WHY = "/why?" + urlencode({"head": "Ada_4", "relation": "grandparent", "tail": "Abe_2"})
VIEWS = {
    "ask": (ASK, ".answers li"),
    "entity": ("/entity?" + urlencode({"name": "Ada_3"}), ".fact-group"),
    "relations": ("/relations?relation=grandparent", ".view-relations .hm"),
    "map": ("/map", ".view-map .point"),
    "rules": ("/rules", ".rules tbody tr"),
    "why": (WHY, ".graph .node"),
}


@pytest.fixture(scope="module")
def server(web_run: Path) -> Iterator[str]:
    with running("explore", web_run) as (_, address):
        yield address


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[playwright_api.Browser]:
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def watched(browser: playwright_api.Browser, server: str) -> Iterator[Watched]:
    watched = watch(browser, server, viewport={"width": 1200, "height": 900})
    yield watched
    watched.page.context.close()
    assert watched.faults == []


# -- asking


def test_ask_a_question_and_read_the_answer(watched: Watched) -> None:
    page = watched.open("/", ".starters a")
    page.get_by_role("combobox", name="From").fill("Ada_4")
    page.get_by_role("combobox", name="Relation or path").fill("grandparent")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Ask").click()
    page.wait_for_selector(".answers li")
    assert page.url == watched.address + ASK
    rows = page.locator(".answers li")
    assert rows.count() == 10
    assert page.locator(".answers .pill").first.inner_text() == "known"
    assert re.fullmatch(r"[<>]?[\d.]+ %", rows.first.locator(".figure").inner_text())
    assert re.search(r"score −?\d+\.\d\d", rows.first.inner_text())
    assert "calibrated on" in page.locator(".results").inner_text()
    widths = [rows.nth(place).locator(".fill").evaluate("node => node.getBoundingClientRect().width") for place in (0, 9)]
    assert widths[0] > widths[1]
    assert page.title().startswith("Ada_4")


def test_auto_complete_with_the_keyboard_alone(watched: Watched) -> None:
    page = watched.open("/ask", ".starters a")
    page.get_by_role("combobox", name="From").focus()
    page.keyboard.type("zoe")
    page.wait_for_selector("[role=option]")
    assert page.get_by_role("combobox", name="From").get_attribute("aria-expanded") == "true"
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("[role=option][aria-selected=true]")
    chosen = page.get_by_role("combobox", name="From").get_attribute("aria-activedescendant")
    assert page.locator(f"#{chosen}").get_attribute("aria-selected") == "true"
    page.keyboard.press("Enter")
    assert page.get_by_role("combobox", name="From").input_value() == EMOJI
    page.keyboard.press("Tab")
    page.keyboard.type("pare")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("[role=option][aria-selected=true]")
    page.keyboard.press("Enter")
    assert page.get_by_role("combobox", name="Relation or path").input_value() == PARENT
    page.keyboard.press("Enter")
    page.wait_for_selector(".answers li")
    assert page.locator(".question").inner_text().startswith(EMOJI)


def test_a_path_question_built_step_by_step(watched: Watched) -> None:
    page = watched.open("/ask", ".starters a")
    page.get_by_role("combobox", name="From").fill("Ada_4")
    field = page.get_by_role("combobox", name="Relation or path")
    field.fill(PARENT)
    page.get_by_role("button", name="then…").click()
    assert field.input_value() == f"<{PARENT}>/"
    page.wait_for_selector("[role=option]")
    page.keyboard.type("sib")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("[role=option][aria-selected=true]:has-text('sibling')")
    page.keyboard.press("Enter")
    assert field.input_value() == f"<{PARENT}>/sibling"
    page.keyboard.press("Enter")
    page.wait_for_selector(".columns .answers li")
    headings = page.locator(".results h2").all_inner_texts()
    assert "By composed matrices" in headings and "Through the entities between" in headings
    assert "through" in page.locator(".through").first.inner_text()


def test_click_through_to_a_reason(watched: Watched) -> None:
    page = watched.open(ASK, ".answers li")
    page.locator(".answers li", has_text="known").first.get_by_role("link", name="Why?").click()
    page.wait_for_selector(".graph .node")
    assert "/why?" in page.url and page.locator(".paths li").count() > 0
    assert page.locator(".graph path.edge").count() >= 2
    assert re.search(r"Its probability is [<>]?[\d.]+ %", page.locator("main").inner_text())
    assert covered(page) == [], "no edge's name lies under an entity"
    page.go_back()
    page.wait_for_selector(".answers li")
    page.locator(".answers li .rank").first.click()  # a click anywhere on an answer explains it
    page.wait_for_selector(".graph .node")
    page.locator(".graph .node.head").click()
    page.wait_for_selector(".fact-group")
    assert page.locator(".entity-name").inner_text() == "Ada_4"
    page.go_back()
    page.wait_for_selector(".graph .node")
    page.go_back()
    page.wait_for_selector(".answers li")
    assert page.url == watched.address + ASK


@pytest.mark.parametrize("view", VIEWS)
def test_an_address_can_be_shared(browser: playwright_api.Browser, server: str, view: str) -> None:
    """A new browser that knows nothing opens the address, and sees the same after a reload."""
    watched = watch(browser, server)
    path, selector = VIEWS[view]
    page = watched.open(path, selector)
    page.wait_for_load_state("networkidle")
    heading = page.locator("h1").inner_text()
    before = page.locator("main").inner_text()
    page.reload()
    page.wait_for_selector(selector)
    page.wait_for_load_state("networkidle")
    assert heading == view.capitalize() and page.url == server + path
    assert page.locator("main").inner_text() == before
    page.context.close()
    assert watched.faults == []


# -- bad use


def test_an_unknown_name_gets_suggestions_that_can_be_taken(watched: Watched) -> None:
    page = watched.open("/ask?" + urlencode({"head": "Adda_4", "relation": "grandparent"}), ".wrong")
    assert "Unknown entity 'Adda_4'" in page.locator(".wrong").inner_text()
    page.get_by_role("button", name="Ada_4", exact=True).click()
    page.wait_for_selector(".answers li")
    assert page.url == watched.address + ASK


def test_a_path_that_does_not_parse_shows_where(watched: Watched) -> None:
    page = watched.open("/ask?" + urlencode({"head": "Ada_4", "path": "sibling//spouse"}), ".wrong")
    text, mark = page.locator(".where").inner_text().split("\n")
    assert text == "sibling//spouse" and mark.index("▲") == 8


def test_an_address_without_a_view_says_so_and_leads_on(watched: Watched) -> None:
    page = watched.open("/nowhere", ".state")
    assert page.locator("h1").inner_text() == "Nothing here"
    page.get_by_role("link", name="Ask a question").click()
    page.wait_for_selector(".starters a")


def test_a_script_in_a_name_stays_text(watched: Watched) -> None:
    page = watched.open("/entity?" + urlencode({"name": SCRIPT}), ".fact-group")
    assert page.locator(".entity-name").inner_text() == SCRIPT
    assert page.locator("main script, main b").count() == 0
    for path, selector in (
        ("/ask?" + urlencode({"head": SCRIPT, "relation": PARENT}), ".answers li"),
        ("/why?" + urlencode({"head": SCRIPT, "relation": PARENT, "tail": "Abe_1"}), ".question"),
        ("/ask?" + urlencode({"head": SCRIPT + "x", "relation": PARENT}), ".wrong"),
    ):
        page = watched.open(path, selector)
        assert SCRIPT in page.locator("main").inner_text() and "broken" not in page.title().replace(SCRIPT, "")
        assert page.locator("main script, main .question b").count() == 0


def test_right_to_left_names_read_so(watched: Watched) -> None:
    page = watched.open("/entity?" + urlencode({"name": HEBREW}), ".fact-group")
    assert page.locator(".entity-name").inner_text() == HEBREW
    assert page.locator(".entity-name").evaluate("node => getComputedStyle(node).direction") == "rtl"


def test_the_server_goes_away_and_comes_back(browser: playwright_api.Browser, web_run: Path) -> None:
    with running("explore", web_run) as (process, address):
        watched = watch(browser, address)
        page = watched.open(ASK, ".answers li")
        process.kill()
        process.wait()
        page.get_by_role("link", name="Entity", exact=True).click()
        page.wait_for_selector("#away:not([hidden])")
        assert "does not answer" in page.locator("#away").inner_text()
        page.get_by_role("link", name="Ask", exact=True).click()
        page.locator("#away button").click()
        assert page.locator("#away").is_visible()
    with running("explore", web_run, "--port", address.rpartition(":")[2]):
        page.wait_for_selector("#away[hidden]", state="attached")
        page.wait_for_selector(".starters a, .answers li")
    page.context.close()
    assert watched.faults == []


# -- what is drawn


def covered(page: Any) -> list[str]:
    """Return the names of edges of the graph that an entity covers."""
    return page.evaluate(
        """() => {
          const nodes = [...document.querySelectorAll('.graph .node rect')].map((node) => node.getBoundingClientRect());
          return [...document.querySelectorAll('.graph text.edge')].filter((text) => {
            const box = text.getBoundingClientRect();
            const [x, y] = [(box.left + box.right) / 2, (box.top + box.bottom) / 2];
            return nodes.some((node) => x > node.left && x < node.right && y > node.top && y < node.bottom);
          }).map((text) => text.textContent);
        }"""
    )


def test_the_heatmap_is_really_drawn(watched: Watched) -> None:
    page = watched.open("/relations", ".view-relations .hm")
    page.wait_for_function(
        "document.querySelector('.view-relations .hm image')?.getAttribute('href') || document.querySelector('.view-relations .hm path')"
    )
    page.wait_for_timeout(300)
    assert colours(page, ".chart") > 12
    page.get_by_label("Search relations").fill("grand")
    playwright_api.expect(page.locator(".chart .ytick")).to_have_count(2, timeout=PATIENCE)
    assert "search=grand" in page.url
    page.locator(".nsewdrag").first.click()
    page.wait_for_selector(".relation-name")
    assert "grandparent" in page.locator(".relation-name").inner_text()
    assert page.locator(".side .answers li").count() > 4


def test_the_map_is_really_drawn_and_leads_to_relations(watched: Watched) -> None:
    page = watched.open("/map", ".view-map .point")
    assert page.locator(".view-map .point").count() == 12
    assert coloured(page, ".chart") > 300
    page.get_by_label("Colour by").select_option("facts")
    page.wait_for_selector(".view-map .cbfill, .view-map .colorbar")
    assert "colour=facts" in page.url
    page.locator(".view-map .point").first.click(force=True)
    page.wait_for_selector(".relation-name")
    assert "/relations?relation=" in page.url


def test_rules_show_examples_and_counter_examples(watched: Watched) -> None:
    page = watched.open("/rules", ".rules tbody tr")
    page.locator(".rules .rule", has_text="grandparent").first.click()
    page.wait_for_selector(".detail li")
    assert page.locator(".detail h3").all_inner_texts() == ["Examples", "Counter-examples"]
    page.reload()
    page.wait_for_selector(".detail li")
    page.get_by_label("Search rules").fill("no such rule")
    assert "No rule has that" in page.locator("main").inner_text()


def test_an_entity_has_facts_suggestions_and_neighbours(watched: Watched) -> None:
    page = watched.open("/entity?name=Ada_3", ".answers.pairs li")
    page.wait_for_selector(".answers.compact li")
    assert page.locator(".fact-group").count() >= 4
    assert "%" in page.locator(".answers.pairs .figure").first.inner_text()


def test_a_run_without_codes_says_so(browser: playwright_api.Browser, plain_run: Path) -> None:
    with running("explore", plain_run) as (_, address):
        watched = watch(browser, address)
        page = watched.open("/relations", ".relation-list a")
        assert "has no autoencoder, so its relations have no codes" in page.locator("main").inner_text()
        page.locator(".relation-list a").first.click()
        page.wait_for_selector(".relation-name")
        page = watched.open("/map", ".view-map .point")
        assert page.locator(".view-map .point").count() == 4
        page.context.close()
        assert watched.faults == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_fits_a_phone(browser: playwright_api.Browser, server: str, scheme: str) -> None:
    watched = watch(browser, server, viewport={"width": 360, "height": 740}, color_scheme=scheme)
    for path, selector in VIEWS.values():
        page = watched.open(path, selector)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, path
        ink, paper = (page.evaluate(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
        lightness = [sum(map(int, re.findall(r"\d+", value)[:3])) / 3 for value in (ink, paper)]
        assert (lightness[0] > 180 and lightness[1] < 60) if scheme == "dark" else (lightness[0] < 80 and lightness[1] > 220)
    watched.page.context.close()
    assert watched.faults == []


def test_plotly_is_loaded_late(watched: Watched) -> None:
    asked: list[str] = []
    watched.page.on("request", lambda request: asked.append(request.url))
    page = watched.open(ASK, ".answers li")
    page.wait_for_load_state("networkidle")
    assert not any("plotly" in url for url in asked)
    page.get_by_role("link", name="Map", exact=True).click()
    page.wait_for_selector(".view-map .point")
    assert any("plotly" in url for url in asked)


def test_the_keyboard_reaches_everything(watched: Watched) -> None:
    page = watched.open("/ask", ".starters a")
    reached = []
    for _ in range(16):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent.trim() || document.activeElement.name"))
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline != "none", reached[-1]
    assert {"Skip to the content", "Ask", "Why", "head", "path"} <= set(reached)

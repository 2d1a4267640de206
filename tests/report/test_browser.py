"""The page in a browser: it sorts, filters and opens, fits its window, and asks for nothing."""

import csv
import re
import time

import numpy as np
import pandas as pd
import pytest
from report_tables import HOSTILE, many_groups, million_rows

from isobag import detect
from isobag.report import write_report
from isobag.tables.terminal import shown

pytestmark = [pytest.mark.browser, pytest.mark.slow]


class Opened:
    """A page opened from disk, and all that it said or asked for."""

    def __init__(self, browser, ranking, folder, **how):
        write_report(ranking, folder / "report.html", source=HOSTILE[0], command=HOSTILE[1])
        self.page = browser.new_page(**how)
        self.complaints, self.requests, self.answers = [], [], []
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: (self.complaints.append(dialog.message), dialog.dismiss()))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("response", lambda response: self.answers.append(response.url))
        self.url = (folder / "report.html").as_uri()
        self.page.goto(self.url)

    def column(self, number):
        return self.page.locator(f"#table tbody tr:not(.details) td:nth-child({number})").all_inner_texts()

    def check_quiet(self):
        assert self.complaints == []
        assert self.requests == [self.url]
        self.page.close()


@pytest.mark.parametrize("name", ["rows", "groups"])
def test_the_table_sorts_searches_and_opens(browser, name, request, tmp_path):
    ranking = request.getfixturevalue(name)
    opened = Opened(browser, ranking, tmp_path)
    page, columns = opened.page, ranking.columns(0, 200)
    ranks = [str(rank) for rank in columns["rank"]]
    assert opened.column(1) == ranks[:20] and len(ranks) == 200
    page.get_by_role("button", name="Show all 200").click()
    assert opened.column(1) == ranks
    header = page.get_by_role("columnheader", name="rank")
    assert header.get_attribute("aria-sort") == "ascending"
    page.get_by_role("button", name="rank").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert opened.column(1) == ranks[::-1]
    page.get_by_role("button", name="rank").press("Enter")  # by keyboard: the focus stayed where it was
    assert opened.column(1)[0] == "1"
    page.locator("#table th.label button").click()
    assert opened.column(1) != ranks and sorted(opened.column(1), key=int) == ranks
    assert header.get_attribute("aria-sort") == "none"

    page.get_by_role("searchbox").fill("alert(1)")
    assert opened.column(2) == [HOSTILE[0]]
    assert page.locator("#count").inner_text() == "1 of 200 shown"
    button = page.locator("#table td.label button")
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    card = page.locator("#table .details article")
    assert card.count() == 1 and HOSTILE[0] in card.locator("h3").inner_text()
    labels = next(iter(columns.values())).to_pylist()
    words = shown(columns["reasons"][labels.index(HOSTILE[0])])
    assert card.locator(".words").inner_text() == words == page.locator("#table td.why").inner_text()
    button.click()
    assert page.locator("#table .details").count() == 0
    page.get_by_role("searchbox").fill("no such thing at all")
    assert "Nothing found" in page.locator("#table tbody").inner_text()
    page.get_by_role("searchbox").fill("")
    page.get_by_label("flagged only").check()
    assert len(opened.column(1)) == np.count_nonzero(columns["flagged"])
    opened.check_quiet()


def test_the_table_is_saved_as_csv_as_it_is_filtered(browser, rows, tmp_path):
    opened = Opened(browser, rows, tmp_path)
    opened.page.get_by_label("flagged only").check()
    with opened.page.expect_download() as saved:
        opened.page.get_by_role("button", name="Save as CSV").click()
    assert saved.value.suggested_filename == "odd rows.csv"
    with open(saved.value.path(), encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    columns = rows.columns(0, rows.n_flagged)
    assert [line["who"] for line in lines] == [shown(one) or "(empty)" for one in columns["who"].to_pylist()]
    assert [line["reasons"] for line in lines] == [shown(one) for one in columns["reasons"]]
    np.testing.assert_allclose([float(line["score"]) for line in lines], columns["score"], rtol=1e-3)
    assert list(lines[0])[3] == "share of rows at least as odd"
    assert opened.complaints == []


@pytest.mark.parametrize("name", ["rows", "groups"])
@pytest.mark.parametrize("width", [390, 1200])
def test_without_scripts_the_whole_table_is_there_and_no_dead_control(browser, name, width, request, tmp_path):
    write_report(request.getfixturevalue(name), tmp_path / "report.html")
    context = browser.new_context(viewport={"width": width, "height": 800}, java_script_enabled=False)
    page = context.new_page()
    page.goto((tmp_path / "report.html").as_uri())
    assert page.locator("#table tbody tr").count() == 200 and page.locator("#table tbody tr").last.is_visible()
    assert page.locator("input:visible, button:visible, select:visible").count() == 0
    assert page.locator("#map").is_hidden() and page.get_by_text("which is switched off here").is_visible()
    targets = page.eval_on_selector_all("a:not([hidden])", "links => links.map(one => one.getAttribute('href'))")
    assert all(page.locator(target).count() == 1 and page.locator(target).is_visible() for target in set(targets))
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()


def test_every_control_and_region_has_a_name_and_contents_lead_somewhere(browser, rows, tmp_path):
    opened = Opened(browser, rows, tmp_path)
    page = opened.page
    for role in ("searchbox", "checkbox", "combobox", "button", "table", "region", "navigation", "img"):
        actual = page.get_by_role(role)
        assert actual.count(), role
        assert actual.count() == page.get_by_role(role, name=re.compile(r"\S")).count(), role
    for link in page.get_by_role("navigation").get_by_role("link").all():
        assert page.locator(link.get_attribute("href")).is_visible()
    assert page.locator("#table caption").inner_text().startswith("The 200 oddest of 510 rows.")
    opened.check_quiet()


def test_three_hundred_columns_fit_a_phone(browser, tmp_path):
    frame = pd.DataFrame(
        np.random.default_rng(0).normal(size=(60, 300)), columns=[f"sensor_{k}_of_the_hall" for k in range(300)]
    )
    frame["place"] = [f"place {k}" for k in range(60)]
    ranking = detect(frame, random_state=0, n_estimators=5, keep=list(frame.columns))
    opened = Opened(browser, ranking, tmp_path, viewport={"width": 390, "height": 800})
    page = opened.page
    assert page.evaluate("document.documentElement.scrollWidth") <= 390 and page.evaluate(HIDDEN) == []
    assert not page.locator(".columns").is_visible()
    page.get_by_text("Every column, and what became of it").click()
    assert page.locator(".columns tbody tr").count() == 300 and page.evaluate(HIDDEN) == []
    opened.check_quiet()


def test_groups_have_a_column_and_a_filter_of_sizes(browser, groups, tmp_path):
    opened = Opened(browser, groups, tmp_path)
    sizes = groups.columns(0, 200)["n_points"]
    opened.page.get_by_role("button", name="Show all").click()
    assert opened.column(3) == [f"{size:,}" for size in sizes]
    opened.page.get_by_label("at least").fill("50")
    assert opened.column(3) == [f"{size:,}" for size in sizes if size >= 50]
    opened.page.get_by_label("at least").fill("")
    assert len(opened.column(3)) == 200
    opened.check_quiet()


def test_rows_have_no_filter_of_sizes(browser, rows, tmp_path):
    assert Opened(browser, rows, tmp_path).page.get_by_label("at least").count() == 0


def test_long_names_are_cut_in_the_middle(browser, rows, tmp_path):
    opened = Opened(browser, rows, tmp_path)
    names = opened.page.locator("#cards .name bdi").all_inner_texts()
    cut = [name for name in names if "…" in name]
    assert cut and all(name.startswith("a long name") and name.endswith("and its end") for name in cut)
    opened.page.get_by_role("searchbox").fill("xxxx")
    assert (
        opened.column(2)[0].startswith("xxx") and opened.column(2)[0].endswith("xxx") and len(opened.column(2)[0]) <= 80
    )


def test_a_map_has_a_dot_for_each_and_axes_to_choose(browser, rows, tmp_path):
    opened = Opened(browser, rows, tmp_path)
    circles = opened.page.locator("#map circle")
    assert circles.count() == 510
    before = circles.first.get_attribute("cx")
    opened.page.get_by_label("across").select_option("component 1")
    assert circles.first.get_attribute("cx") != before
    opened.page.locator("#map a").last.press("Enter")
    assert opened.page.evaluate("location.hash") == "#odd-0"
    opened.page.wait_for_function("document.getElementById('odd-0').getBoundingClientRect().top < innerHeight")
    assert opened.complaints == []


def test_two_indicators_are_drawn_as_bars(browser, tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.random((300, 3)) < 0.2, columns=["a", "b", "c"])
    frame["u"], frame["v"] = rng.normal(size=(2, 300))
    opened = Opened(browser, detect(frame, random_state=0, n_estimators=10, contamination=0.1), tmp_path)
    page = opened.page
    assert page.locator("#map circle").count() == 300
    page.get_by_label("across").select_option("a")
    assert page.locator("#map circle").count() == 300
    page.get_by_label("up").select_option("b")
    assert page.locator("#map circle").count() == 0 and page.locator("#map rect").count() == 8
    shares = [float(text.split()[0]) for text in page.locator("#map text").all_text_contents() if text.endswith(" %")]
    assert abs(sum(shares) - 200) < 1
    opened.check_quiet()


def test_what_to_do_next_leads_to_the_oddest(browser, groups, tmp_path):
    opened = Opened(browser, groups, tmp_path)
    links = opened.page.locator(".first a")
    assert links.count() == 5
    links.nth(3).click()
    assert opened.page.evaluate("location.hash") == "#odd-3"
    opened.page.wait_for_function("document.getElementById('odd-3').getBoundingClientRect().top < innerHeight")
    assert links.nth(3).inner_text() in opened.page.locator("#odd-3 h3").inner_text()
    opened.check_quiet()


def test_each_of_the_oddest_groups_is_drawn_against_the_population(browser, groups, tmp_path):
    opened = Opened(browser, groups, tmp_path)
    cards = opened.page.locator("#cards article")
    assert cards.count() == 8
    names, features = groups.table.encoding.names, groups.explanation.features
    for k in range(8):
        telling = [names[j] for j in np.argsort(-np.abs(features[k]), kind="stable")[:4]]
        card = cards.nth(k)
        assert card.locator("figcaption bdi").all_inner_texts() == telling
        n_flags = sum(name.startswith("channel=") for name in telling)
        assert card.locator("path.outline").count() == 4 - n_flags
        assert card.get_by_text("share of the rows").count() == n_flags
        assert card.locator("figure.wide").count() == (n_flags < 3)
        assert card.locator(".words").inner_text() == groups.reasons[k]
    assert opened.page.locator("#map circle").count() == 401
    opened.check_quiet()


@pytest.mark.parametrize("name", ["rows", "groups"])
def test_a_phone_shows_all_that_is_explained(browser, name, request, tmp_path):
    opened = Opened(browser, request.getfixturevalue(name), tmp_path, viewport={"width": 390, "height": 800})
    page = opened.page
    page.locator("#table td.label button").first.click()
    for selector in ("#cards article", "#table .details article", ".columns"):
        assert page.locator(selector).first.is_visible()
    hidden = page.evaluate(HIDDEN)
    assert hidden == []
    opened.check_quiet()


HIDDEN = """() => {
  const places = "#cards *, #table *, .first *, .remarks *, .columns tbody *, footer *, .key";
  const all = [...document.querySelectorAll(places)];
  const says = one => one.tagName !== "title" && (one.textContent.trim() || ["rect", "circle"].includes(one.tagName));
  const isGone = one => {
    const box = one.getBoundingClientRect(), isEmptyBar = ["0", "0.0"].includes(one.getAttribute("width"));
    return !isEmptyBar && (!box.width || !box.height) || box.right > innerWidth + 1 || box.left < -1;
  };
  return all.filter(one => says(one) && isGone(one)).map(one => one.tagName + " " + one.textContent.slice(0, 40));
}"""


@pytest.mark.parametrize("name", ["rows", "groups"])
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window_and_its_letters_can_be_read(browser, name, width, scheme, request, tmp_path):
    ranking = request.getfixturevalue(name)
    opened = Opened(browser, ranking, tmp_path, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    for selector in (
        "h1",
        "p",
        "figcaption",
        "#table td",
        "#table th button",
        "dt",
        ".tag",
        ".first a",
        ".remarks li",
        ".words",
        ".columns td",
        "code",
    ):
        assert opened.page.evaluate(CONTRAST, selector) >= 4.5, selector
    opened.check_quiet()


CONTRAST = """selector => {
  const light = colour => { const parts = colour.match(/[0-9.]+/g).slice(0, 3).map(part => {
    const share = part / 255; return share <= .03928 ? share / 12.92 : ((share + .055) / 1.055) ** 2.4; });
    return .2126 * parts[0] + .7152 * parts[1] + .0722 * parts[2]; };
  const ink = light(getComputedStyle(document.querySelector(selector)).color);
  const paper = light(getComputedStyle(document.body).backgroundColor);
  return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
}"""


def test_on_paper_the_page_is_light_and_without_controls(browser, rows, tmp_path):
    opened = Opened(browser, rows, tmp_path, color_scheme="dark")
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not opened.page.locator("#search").is_visible()
    assert opened.page.pdf(format="A4")[:5] == b"%PDF-"
    assert opened.complaints == []


def test_the_page_would_run_no_other_script(browser, rows, tmp_path):
    opened = Opened(browser, rows, tmp_path)
    opened.page.evaluate("""() => { const script = document.createElement("script");
        script.textContent = "window.ran = true"; document.body.append(script);
        const image = new Image(); image.src = "https://example.com/x.png"; document.body.append(image); }""")
    assert opened.page.evaluate("window.ran") is None
    assert opened.answers == [opened.url]
    assert any("Content Security Policy" in complaint for complaint in opened.complaints)


@pytest.mark.parametrize("make", [million_rows, many_groups])
def test_a_large_report_opens_in_two_seconds(browser, make, tmp_path):
    ranking = make()
    start = time.perf_counter()
    opened = Opened(browser, ranking, tmp_path)
    opened.page.wait_for_selector("#table tbody tr:nth-child(20)")
    seconds = opened.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd / 1000")
    assert 0 < seconds < 2, time.perf_counter() - start
    opened.check_quiet()

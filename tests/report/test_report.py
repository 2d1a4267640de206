"""The report: one page that a person can read, and that nothing in the data can turn against that person."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from isobag import IDKGroupDetector, IDKPointDetector
from isobag.datasets import make_card_accounts
from isobag.report import GroupFindings, PointFindings, group_findings, point_findings, write_report
from isobag.report.page import embedded, render, shown

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "\"'><svg onload=alert(3)>",
    "😀 👩‍👩‍👧 ñ",
    "x" * 5_000,
    "nul\0, bell\a, right to left \u202eabc",
    "half \ud800 a character",
    "&lt;b&gt; {{ 7 * 7 }} {% raw %} ${1}",
    "",
    "http://example.com/beacon.png",
]
LARGEST = 3_000_000


@pytest.fixture(scope="module")
def points():
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(size=(500, 3)), np.eye(3)[np.arange(10) % 3] * (8.0 + np.arange(10))[:, None]])
    labels = [f"row {i}" for i in range(500)] + HOSTILE
    frame = pd.DataFrame(X, columns=["<b>bold</b>", "b", "c & d"])
    detector = IDKPointDetector(random_state=0, n_estimators=20).fit(frame)
    return point_findings(detector, frame, labels=labels, title=HOSTILE[0], source=HOSTILE[1], top=60, n_dropped=7)


@pytest.fixture(scope="module")
def groups():
    X, features, labels, _ = make_card_accounts(random_state=0)
    names = dict(zip(dict.fromkeys(labels.tolist()), HOSTILE[:8], strict=False))
    groups = np.array([names.get(label, label) for label in labels.tolist()], dtype=object)
    frame = pd.DataFrame(X, columns=features)
    detector = IDKGroupDetector(random_state=0, n_estimators=20).fit(frame, groups=groups)
    return group_findings(detector, frame, groups, title="Odd accounts", top=400)


class Elements(HTMLParser):
    """What a browser would find in a page, as far as tags go."""

    def __init__(self, page):
        super().__init__()
        self.tags = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))


def payload(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


@pytest.mark.parametrize("name", ["points", "groups"])
def test_labels_never_become_markup(name, request):
    page = render(request.getfixturevalue(name))
    elements = Elements(page).tags
    assert [attrs for tag, attrs in elements if tag == "script"] == [{"type": "application/json", "id": "data"}, {}]
    assert not [attrs for _, attrs in elements if any(key.startswith("on") or key == "src" for key in attrs)]
    assert not [tag for tag, _ in elements if tag in ("img", "link", "iframe", "b")]
    assert "\0" not in page and "\u202e" not in page
    labels = {entry["label"] for entry in payload(page)["top"]}
    assert {shown(label) for label in HOSTILE[:3]} <= labels and "" not in labels


def test_text_from_the_data_is_shown_whole_but_tamed():
    assert shown("a\0b\u202ec\ud800") == "a\\u0000b\\u202ec\\ud800"
    assert shown("😀 <b>") == "😀 <b>"
    assert len(shown("x" * 5_000)) == 301
    assert "<" not in embedded(HOSTILE) and json.loads(embedded(HOSTILE)) == HOSTILE


def test_findings_of_points_are_those_of_the_detector(points):
    order = np.argsort(points.scores, kind="stable")[:60]
    assert set(HOSTILE) <= set(points.labels[:20])
    np.testing.assert_array_equal(points.top_scores, points.scores[order])
    assert points.features[int(points.reasons[0].argmax())] == points.features[int(np.abs(points.values[0]).argmax())]
    assert points.p_values is not None and points.p_values[0] < 0.05


def test_findings_of_groups_are_those_of_the_detector(groups):
    assert isinstance(groups, GroupFindings)
    assert np.all(np.diff(groups.top_scores) >= 0)
    assert [len(part) for part in groups.members] == np.minimum(groups.sizes, 120).tolist()
    assert groups.top_places.shape == (400, 2) and groups.sample_places.shape == (0, 2)
    assert 0 < groups.explained <= 1


@pytest.mark.parametrize(
    "X",
    [np.arange(30.0)[:, None], np.zeros((20, 2)), np.random.default_rng(0).normal(size=(300, 60)), np.eye(3)],
    ids=["one feature", "constant", "many features", "three rows"],
)
@pytest.mark.parametrize("calibrate", [True, False])
def test_points_of_any_shape_make_a_page(X, calibrate):
    detector = IDKPointDetector(random_state=0, n_estimators=7, calibrate=calibrate).fit(X)
    found = payload(render(point_findings(detector, X)))
    assert sum(found["histogram"]["counts"]) == len(X)
    assert np.all(np.diff(found["histogram"]["edges"]) > 0)


@pytest.mark.parametrize("n_groups", [2, 3, 12])
@pytest.mark.parametrize("spread", [0, 1])
def test_groups_of_any_number_make_a_page(n_groups, spread):
    parts = [spread * np.random.default_rng(g).normal(size=(g + 1, 2)) for g in range(n_groups)]
    detector = IDKGroupDetector(random_state=0, n_estimators=7).fit(parts)
    found = payload(render(group_findings(detector, parts)))
    assert len(found["top"]) == n_groups == sum(found["histogram"]["counts"])


def test_the_threshold_ends_a_bin(points):
    found = payload(render(points))["histogram"]
    below = [count for count, edge in zip(found["counts"], found["edges"][1:], strict=True) if edge <= found["offset"]]
    assert found["offset"] in found["edges"]
    assert sum(below) == np.count_nonzero(points.scores < points.offset)


def test_a_report_is_written_whole_or_not_at_all(points, tmp_path, monkeypatch):
    write_report(points, tmp_path / "r.html")
    assert (tmp_path / "r.html").read_text("utf-8") == render(points)
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="the disk is full"):
        write_report(points, tmp_path / "other.html")
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]


def test_a_missing_library_is_named_in_one_sentence():
    code = "import sys; sys.modules['jinja2'] = None; from isobag.report.page import _jinja_environment as e; e()"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stderr.splitlines()[-1] == (
        'ImportError: Reports need jinja2, which is missing: pip install "isobag[report]".'
    )


def million_points():
    """Findings of a million rows, with long labels and many features; the report does not care how they came about."""
    rng = np.random.default_rng(0)
    scores = rng.lognormal(-2, 0.5, 1_000_000)
    values, reasons = rng.normal(size=(200, 200)), rng.normal(size=(200, 200))
    names = [f"feature number {j} with a long name" for j in range(200)]
    labels = [f"{k:0100}" for k in range(200)]
    return PointFindings(
        "Large", "", {}, names, 0, 0, scores, 0.05, labels, np.sort(scores)[:200], None, values, reasons,
        rng.normal(size=(2_000, 200)), rng.random(2_000) < 0.1,
    )  # fmt: skip


def many_groups():
    """10,000 groups."""
    X = np.random.default_rng(0).normal(size=(50_000, 8))
    groups = np.repeat(np.arange(10_000), 5)
    detector = IDKGroupDetector(random_state=0, n_estimators=10, calibrate=False).fit(X, groups=groups)
    return group_findings(detector, X, groups, scores=detector.scores_)


@pytest.mark.parametrize("make", [million_points, many_groups])
def test_a_large_report_is_small(make):
    assert len(render(make()).encode()) < LARGEST


def chromium():
    """A Chromium of this machine, if there is one."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser():
    path = chromium()
    if path is None and os.environ.get("CI_BROWSER") != "1":
        pytest.skip("no Chromium found; install one (on Debian: apt-get install chromium) to test the page in it")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield found
        found.close()


class Opened:
    """A page opened from disk, and all that it said or asked for."""

    def __init__(self, browser, findings, folder, **how):
        write_report(findings, folder / "report.html")
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


@pytest.mark.browser
@pytest.mark.parametrize("name", ["points", "groups"])
def test_the_table_sorts_searches_and_opens(browser, name, request, tmp_path):
    findings = request.getfixturevalue(name)
    opened = Opened(browser, findings, tmp_path)
    page, k = opened.page, len(findings.labels)
    assert opened.column(1) == [str(rank + 1) for rank in range(k)]
    header = page.get_by_role("columnheader", name="rank")
    assert header.get_attribute("aria-sort") == "ascending"
    page.get_by_role("button", name="rank").click()
    assert header.get_attribute("aria-sort") == "descending"
    assert opened.column(1) == [str(k - rank) for rank in range(k)]
    page.get_by_role("button", name="rank").press("Enter")  # by keyboard: the focus stayed where it was
    assert opened.column(1)[0] == "1"
    name_button = page.locator("#table th.label button")
    name_button.click()
    assert sorted(opened.column(2), key=str.casefold) != [] and opened.column(1)[0] != "1"
    assert header.get_attribute("aria-sort") == "none"

    page.get_by_role("searchbox").fill("alert(1)")
    assert opened.column(2) == [HOSTILE[0]]
    assert page.locator("#count").inner_text() == f"1 of {k} shown"
    button = page.locator("#table td.label button")
    assert button.get_attribute("aria-expanded") == "false"
    button.click()
    assert button.get_attribute("aria-expanded") == "true"
    assert page.locator("#table .details article").count() == 1
    assert HOSTILE[0] in page.locator("#table .details article h3").inner_text()
    button.click()
    assert page.locator("#table .details").count() == 0
    page.get_by_role("searchbox").fill("no such thing at all")
    assert "Nothing found" in page.locator("#table tbody").inner_text()
    page.get_by_role("searchbox").fill("")
    page.get_by_label("flagged only").check()
    assert len(opened.column(1)) == np.count_nonzero(findings.top_scores < findings.offset)
    opened.check_quiet()


@pytest.mark.browser
def test_a_map_has_a_dot_for_each_and_axes_to_choose(browser, points, tmp_path):
    opened = Opened(browser, points, tmp_path)
    circles = opened.page.locator("#map circle")
    assert circles.count() == len(points.sample) + len(points.labels)
    before = circles.first.get_attribute("cx")
    opened.page.get_by_label("across").select_option("component 1")
    assert circles.first.get_attribute("cx") != before
    opened.page.locator("#map a").last.press("Enter")
    assert opened.page.evaluate("location.hash") == "#odd-0"
    opened.page.wait_for_function("document.getElementById('odd-0').getBoundingClientRect().top < innerHeight")
    assert opened.complaints == []


@pytest.mark.browser
def test_each_of_the_oddest_groups_is_drawn_against_the_population(browser, groups, tmp_path):
    opened = Opened(browser, groups, tmp_path)
    cards = opened.page.locator("#cards article")
    assert cards.count() == 8
    telling = [groups.features[j] for j in np.argsort(-np.abs(groups.reasons[0]), kind="stable")]
    assert cards.first.locator("figcaption bdi").all_inner_texts() == telling
    assert cards.first.locator("path.outline").count() == 4
    assert opened.page.locator("#map circle").count() == 400
    opened.check_quiet()


@pytest.mark.browser
@pytest.mark.parametrize("name", ["points", "groups"])
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window_and_its_letters_can_be_read(browser, name, width, scheme, request, tmp_path):
    findings = request.getfixturevalue(name)
    opened = Opened(browser, findings, tmp_path, viewport={"width": width, "height": 800}, color_scheme=scheme)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    for selector in ("h1", "p", "figcaption", "#table td", "#table th button", "dt", ".tag"):
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


@pytest.mark.browser
def test_on_paper_the_page_is_light_and_without_controls(browser, points, tmp_path):
    opened = Opened(browser, points, tmp_path, color_scheme="dark")
    opened.page.emulate_media(media="print", color_scheme="dark")
    assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not opened.page.locator("#search").is_visible()
    assert opened.page.pdf(format="A4")[:5] == b"%PDF-"
    assert opened.complaints == []


@pytest.mark.browser
def test_the_page_would_run_no_other_script(browser, points, tmp_path):
    opened = Opened(browser, points, tmp_path)
    opened.page.evaluate("""() => { const script = document.createElement("script");
        script.textContent = "window.ran = true"; document.body.append(script);
        const image = new Image(); image.src = "https://example.com/x.png"; document.body.append(image); }""")
    assert opened.page.evaluate("window.ran") is None
    assert opened.answers == [opened.url]
    assert any("Content Security Policy" in complaint for complaint in opened.complaints)


@pytest.mark.browser
@pytest.mark.parametrize("make", [million_points, many_groups])
def test_a_large_report_opens_in_two_seconds(browser, make, tmp_path):
    findings = make()
    start = time.perf_counter()
    opened = Opened(browser, findings, tmp_path)
    opened.page.wait_for_selector("#table tbody tr:nth-child(200)")
    seconds = opened.page.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd / 1000")
    assert 0 < seconds < 2, time.perf_counter() - start
    opened.check_quiet()

"""The page about entities over time: a map, a timeline, cards, and a table that says the same."""

import re

import numpy as np
import pytest
from report_tables import COMMON, HALF, HOSTILE, watched
from test_browser import CONTRAST
from test_page import Elements, words_of

from isobag import EntityMonitor
from isobag.estimators.histories import History
from isobag.report import write_watch_report
from isobag.report.watch import MARKS, MOST_CARDS, MOST_ENTITIES, MOST_PERIODS, render_watch
from isobag.tables.terminal import shown

ODD = [
    (3, 9, "silent", "silent, expected 11.5 rows"),
    (5, 9, "unlike its past, more rows", "amount 40, usually 8 to 11; odd since 2026-01-09"),
    (5, 8, "unlike its past", "amount 39, usually 8 to 11"),
    (7, 2, "fewer rows", "1 row, usually 9 to 12"),
]


def names_on_map(page):
    names = re.search(r'<ol class="names".*?</ol>', page, re.DOTALL)[0]
    return re.findall(r"<bdi>(.*?)</bdi>", names)


def cards_of(page):
    return re.findall(r'<article id="f-\d+">.*?</article>', page, re.DOTALL)


def test_the_oddest_entities_are_on_top_of_the_map_and_marked_by_shape():
    page = render_watch(watched(odd=ODD))
    assert names_on_map(page)[:3] == ["shop 3", "shop 5", "shop 7"] and len(names_on_map(page)) == 20
    marks = re.findall(r'<text class="mark strong"[^>]*><title>(.*?)</title>(.)</text>', page)
    assert sorted(marks) == sorted(
        (f"shop {k}, 2026-01-{t + 1:02}: {kind}", MARKS[kind.split(", ")[0]]) for k, t, kind, _ in ODD
    )
    cells = re.findall(r'<path class="level-(\d)" d="(.*?)"', page)
    assert {level for level, _ in cells} == {"0", "4"}
    assert sum(path.count("M") for _, path in cells) == 200
    assert dict(cells)["4"] == "M2 2h1v1h-1zM8 1h1v1h-1zM9 0h1v1h-1zM9 1h1v1h-1z"


def test_each_entity_with_a_finding_has_a_card_by_its_newest_one():
    cards = [words_of(card) for card in cards_of(render_watch(watched(odd=ODD)))]
    assert len(cards) == 3
    for word in ("shop 3", "2026-01-10", "silent, expected 11.5 rows", "0 rows, 11.5 expected", "p 1e-09"):
        assert word in cards[0]
    assert "shop 5" in cards[1] and "unlike its past, more rows" in cards[1] and "odd since 2026-01-09" in cards[1]
    assert "against its past 2e-09" in cards[1] and "against its peers" not in cards[1]
    assert "shop 7" in cards[2] and "2026-01-03" in cards[2]


def test_a_table_has_every_finding_the_newest_first():
    page = render_watch(watched(odd=ODD))
    table = re.search(r'<table class="columns findings">.*', page, re.DOTALL)[0]
    rows = re.findall(r"<tr><td><bdi>(.*?)</bdi></td><td class=\"when\">(.*?)</td>", table)
    assert rows == [
        ("shop 3", "2026-01-10"),
        ("shop 5", "2026-01-10"),
        ("shop 5", "2026-01-09"),
        ("shop 7", "2026-01-03"),
    ]
    counts = re.findall(r'<td class="when">(\S+)</td><td [^>]*>20</td><td [^>]*>(\d+)</td>', page)
    assert counts[:2] == [("2026-01-10", "2"), ("2026-01-09", "1")] and len(counts) == 10


def test_a_change_of_all_comes_before_single_findings():
    page = render_watch(watched(odd=ODD, common_changes=(COMMON,), notes=("3 rows came too late.",)))
    words = words_of(page)
    assert re.findall(r'x="([\d.]+)%" y="56">★', page) == ["35.00"]
    assert words.index("18 of 20 entities changed on 2026-01-04") < words.index("2 of 20 entities stand out")
    assert "3 rows came too late." in words


@pytest.mark.parametrize("text", [*filter(None, HOSTILE), HALF])
def test_text_from_the_data_never_becomes_markup(text):
    odd = [(0, 9, "more rows", f"{text} 3, usually 4")]
    labels = [text, *(f"shop {k}" for k in range(1, 20))]
    findings = watched(odd=odd, labels=labels, notes=(text,), histories={9 * 20: history(text)})
    page = render_watch(findings, source=text, command=text)
    tags = Elements(page).tags
    assert not [tag for tag, _ in tags if tag in ("script", "img", "link", "iframe", "b", "object", "form", "base")]
    assert not [attrs for _, attrs in tags if any(key.startswith("on") or key in ("src", "style") for key in attrs)]
    assert all(attrs["href"].startswith("#") for _, attrs in tags if "href" in attrs)
    assert "\0" not in page and "\u202e" not in page
    assert shown(text) in [name for tag, attrs in tags if tag == "li" for name in [attrs.get("title")]]


def test_a_large_page_shows_some_of_many_and_says_so():
    odd = [(k, t, "more rows", "40 rows, usually 9 to 12") for k in range(100) for t in (150, 199)]
    page = render_watch(watched(500, 200, odd))
    words = words_of(page)
    assert len(names_on_map(page)) == MOST_ENTITIES and len(cards_of(page)) == MOST_CARDS
    assert f"{MOST_ENTITIES} of 500 entities" in words and f"The last {MOST_PERIODS} of 200 periods" in words
    assert f"{MOST_CARDS} of 100 entities with a finding" in words and "and 76 more" in words
    assert len(page) < 1_000_000


def test_findings_without_lines_or_alarms_make_a_page():
    assert "Nothing stands out in the newest period, 2026-01-10." in words_of(render_watch(watched()))
    assert "No period was judged" in words_of(render_watch(watched(0, 0)))


def test_the_page_of_a_monitor_says_what_the_monitor_says(rng, tmp_path):
    shop, day = np.divmod(np.arange(12 * 30 * 20) // 20, 30)
    amount = rng.normal(size=len(shop))
    amount[(shop == 7) & (day == 29)] += 5
    times = np.datetime64("2026-01-01") + day
    monitor = EntityMonitor(random_state=0, n_estimators=8)
    findings = monitor.update(amount[:, None], shop, times, since=np.datetime64("2026-01-25"))
    write_watch_report(findings, tmp_path / "w.html", source="shops")
    page = (tmp_path / "w.html").read_text("utf-8")
    assert findings.flagged.any() and len(cards_of(page)) == len(set(findings.entity[findings.flagged]))
    for reasons in findings.reasons[findings.flagged]:
        assert all(shown(one) in words_of(page) for one in reasons.split("; "))


def history(name="amount", n=9):
    periods = (np.datetime64("2026-01-02") + np.arange(n)).astype("datetime64[us]")
    values = np.append(np.where(np.arange(n - 1) == 3, np.nan, 10.0), 40.0)
    return History(name, periods, values, values == 40, np.full(n, 8.0), np.full(n, 12.0))


def test_a_card_draws_the_clearest_feature_and_says_it_to_screen_readers():
    page = render_watch(watched(odd=ODD, histories={9 * 20 + 5: history()}))
    cards = {words_of(card).split()[2]: card for card in cards_of(page)}
    assert "amount 40 · its past 10 to 10 · its peers 8 to 12" in words_of(cards["5"])
    label = re.search(r'aria-label="(Mean of .*?)"', cards["5"])[1]
    assert label == (
        "Mean of amount in the periods from 2026-01-02 to 2026-01-10: 40 in the last one; in its past 10 to 10; of its"
        " peers 8 to 12."
    )
    points = re.findall(r'<circle class="(\w+)" cx="[\d.]+%" cy="([\d.]+)%"', cards["5"])
    assert [kind for kind, _ in points] == ["own"] * 7 + ["odd"], "no point where there are no rows"
    assert float(points[-1][1]) < 10 and float(points[0][1]) > 80, "higher values are higher up"
    assert re.search(r'<path class="expected" d="(M0.5 .*?)"/>', cards["5"])[1].count("M") == 2, "a gap breaks the line"
    assert "circle" not in cards["3"], "a silent entity has no feature"


def test_a_history_is_of_the_entity_and_of_its_peers(rng):
    shop, day = np.divmod(np.arange(12 * 30 * 20) // 20, 30)
    X = rng.normal(size=(len(shop), 3))
    X[(shop == 7) & (day == 29), 1] += 5
    findings = EntityMonitor(random_state=0, n_estimators=8).update(
        X, shop, np.datetime64("2026-01-01") + day, since=np.datetime64("2026-01-30")
    )
    (line,) = np.flatnonzero(findings.flagged)
    own = findings.histories[line]
    assert own.name == "x1" and len(own.values) == 30 and own.flagged.tolist() == [False] * 29 + [True]
    means = [X[(shop == 7) & (day == one), 1].mean() for one in range(30)]
    np.testing.assert_allclose(own.values, means, rtol=1e-5, atol=1e-6)
    peers = [X[(shop == one) & (day == 29), 1].mean() for one in range(12) if one != 7]
    np.testing.assert_allclose([own.low[-1], own.high[-1]], np.quantile(peers, [0.1, 0.9]), rtol=1e-5)


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_fits_its_window_needs_no_script_and_asks_for_nothing(browser, width, scheme, tmp_path):
    labels = [*filter(None, HOSTILE), *(f"shop {k}" for k in range(9, 20))]
    write_watch_report(
        watched(
            20,
            200,
            [(0, 199, "silent", HOSTILE[0]), (4, 198, "more rows", "x" * 400)],
            labels,
            histories={198 * 20 + 4: history("y" * 300, 80)},
        ),
        tmp_path / "w.html",
    )
    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, java_script_enabled=False
    )
    page, requests, complaints = context.new_page(), [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.goto((tmp_path / "w.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    for selector in ("h1", "p", "figcaption", ".names li", ".tag", ".words", ".columns td", "caption"):
        assert page.evaluate(CONTRAST, selector) >= 4.5, selector
    map_box = page.locator(".recent > div > svg").bounding_box()
    assert map_box["x"] + map_box["width"] <= width, "a narrow window shows the newest period first"
    assert len(requests) == 1 and complaints == []
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    context.close()

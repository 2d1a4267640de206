"""The report formats a ranking, and nothing in the data can turn the page against its reader."""

import csv
import dataclasses
import json
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from reading import read_table
from report_tables import HALF, HOSTILE, LONG, many_groups, million_rows
from typer.testing import CliRunner

import isobag
from isobag import IDKGroupDetector, detect, fit
from isobag.cli.app import app
from isobag.data.spool import Spool
from isobag.models.calibration import Calibration
from isobag.models.group import GroupModel
from isobag.models.point import PointModel
from isobag.models.views import Views
from isobag.report import write_report
from isobag.report.findings import choose_some, cut_of, histogram_of
from isobag.report.page import render
from isobag.report.template import embedded
from isobag.tables.detect import open_frame
from isobag.tables.framesource import FrameSource
from isobag.tables.ranking import rank
from isobag.tables.reasons import NO_COLUMN
from isobag.tables.terminal import LONGEST, escape_for_terminal, shown

LARGEST = 3_000_000
HOW = {"features": ["amount", "hour"], "random_state": 0, "n_estimators": 20}


class Elements(HTMLParser):
    """What a browser would find in a page, as far as tags and text go."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.text = [], []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def payload(page):
    return json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])


def words_of(page):
    """What a reader sees of a page before its script has run."""
    bare = re.sub(r"<(style|script|noscript)\b.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(" ".join(Elements(bare).text).split())


def below_cut(histogram):
    """How many of the scores drawn lie below the threshold drawn."""
    edges = histogram["edges"][1:]
    cut = -np.inf if histogram["cut"] is None else histogram["cut"]
    return sum(count for count, edge in zip(histogram["counts"], edges, strict=True) if edge <= cut)


@pytest.fixture
def frame(rng):
    values = pd.DataFrame({"amount": rng.normal(size=200), "hour": rng.normal(size=200)})
    return values.assign(account=np.repeat(np.arange(20), 10))


@pytest.fixture
def model(rng):
    return fit(pd.DataFrame(rng.normal(size=(400, 2)), columns=["amount", "hour"]), **HOW)


@pytest.mark.parametrize("name", ["rows", "groups"])
def test_text_from_the_data_never_becomes_markup(name, request):
    for text in (*HOSTILE[:3], HALF):
        page = render(request.getfixturevalue(name), source=text, command=f"isobag detect {text}")
        elements = Elements(page).tags
        assert [attrs for tag, attrs in elements if tag == "script"] == [{"type": "application/json", "id": "data"}, {}]
        assert not [attrs for _, attrs in elements if any(key.startswith("on") or key == "src" for key in attrs)]
        assert not [attrs for _, attrs in elements if "style" in attrs]
        assert all(attrs["href"].startswith("#") for _, attrs in elements if "href" in attrs)
        assert not {tag for tag, _ in elements} & {"img", "link", "iframe", "b", "u", "object", "form", "base"}
        assert "\0" not in page and "\u202e" not in page and "49" not in "".join(re.findall(r"&amp;lt;b.{0,40}", page))
        labels = {entry["label"] for entry in payload(page)["top"]}
        assert {shown(label) for label in HOSTILE[:3]} <= labels and "" not in labels
        assert page.encode("utf-8", "replace")


def test_text_from_the_data_is_tamed_and_cut_in_the_middle(rows):
    assert shown("a\0b\u202ec\ud800") == escape_for_terminal("a\0b\u202ec\ud800") == "a\\x00b\\u202ec\\ud800"
    assert shown("😀 <b>") == "😀 <b>"
    long = shown("begin " + "x" * 5_000 + " end")
    assert len(long) == LONGEST + 1 and long.startswith("begin ") and long.endswith(" end") and "…" in long
    assert "<" not in embedded(HOSTILE) and json.loads(embedded(HOSTILE)) == HOSTILE
    assert shown(LONG) in payload(render(rows))["columns"] and LONG[-11:] in shown(LONG)


@pytest.mark.parametrize("name", ["rows", "groups"])
def test_the_page_says_what_the_ranked_table_says(name, request):
    ranking = request.getfixturevalue(name)
    page, columns = render(ranking), ranking.columns(0, 200)
    top = payload(page)["top"]
    assert len(top) == 200
    assert [one["words"] for one in top] == [shown(words) for words in columns["reasons"]]
    assert all(one["words"] for one in top) and all(one["words"] in words_of(page) for one in top[:5])
    assert [one["rank"] for one in top] == columns["rank"].tolist()
    assert [one["flagged"] for one in top] == columns["flagged"].tolist()
    assert_allclose([one["score"] for one in top], columns["score"], rtol=1e-3)
    assert_allclose([one["p"] for one in top], columns["rank_share"], rtol=1e-3)
    labels = [shown(label) or "(empty)" for label in next(iter(columns.values())).to_pylist()]
    assert [one["label"] for one in top] == labels
    if name == "groups":
        assert [one["size"] for one in top] == columns["n_points"].tolist()


def test_the_bars_of_a_row_begin_with_the_columns_of_its_words(rows):
    values = payload(render(rows))
    explained = [entry for entry in values["top"] if entry["words"] != NO_COLUMN]
    assert len(explained) > 50
    for entry in explained:
        first = values["columns"][entry["why"][0][0]]
        assert entry["words"].startswith(first[:100]) and (
            "…" in entry["words"] or entry["why"][0][2] in entry["words"]
        )
        assert [part for _, part, *_ in entry["why"]] == sorted((part for _, part, *_ in entry["why"]), reverse=True)
    plain = dataclasses.replace(rows, reasons=[NO_COLUMN] * len(rows.reasons))  # then by its largest parts
    entry = payload(render(plain))["top"][0]
    assert entry["more"] and entry["more"].startswith(rows.encoding.columns[entry["why"][0][0]].name)
    assert entry["more"] in words_of(render(plain))


def test_the_pictures_of_a_group_are_of_the_features_of_its_words_and_indicators_are_bars(groups):
    values = payload(render(groups))
    channels = [j for j, name in enumerate(values["features"]) if name.startswith("channel=")]
    assert channels
    for entry in values["top"]:
        of_columns = re.sub(r"^n_points .*?\), ", "", entry["words"])
        assert of_columns.startswith(values["features"][entry["why"][0][0]])
        for j, _, points in entry["why"]:
            assert isinstance(points, float) == isinstance(values["population"][str(j)], float) == (j in channels)
            assert j in channels or len(points) == entry["sampled"] == min(entry["size"], 120)
    tiny = next(entry for entry in values["top"] if entry["label"] == "tiny")
    assert tiny["size"] == 2 and tiny["words"].startswith("n_points 2 (low")


def test_nothing_is_learned_scored_or_explained_again(rows, groups, monkeypatch):
    def never(*_, **__):
        raise AssertionError("computed twice")

    for owner, methods in ((PointModel, ["scores", "explain", "path"]), (GroupModel, ["scores", "explain"])):
        for method in methods:
            monkeypatch.setattr(owner, method, never)
    monkeypatch.setattr(Calibration, "p_values", never)
    mapped, compute = [], Views.mean_maps
    monkeypatch.setattr(Views, "mean_maps", lambda *args, **how: mapped.append(1) or compute(*args, **how))
    assert render(rows) and not mapped
    assert render(groups) and len(mapped) == 1


def test_a_map_of_rows_begins_with_numbers_unless_there_are_none(rng):
    flags = pd.DataFrame(rng.random((100, 4)) < 0.2, columns=list("abcd")).astype(int)
    both = flags.assign(u=rng.normal(size=100), v=rng.normal(size=100))
    for table, kind in ((flags, "indicator"), (both, "")):
        places = payload(render(detect(table, random_state=0, n_estimators=10)))["map"]
        assert {places["kinds"][axis] for axis in places["start"]} == {kind}


def test_many_columns_make_a_small_page(rng):
    X = rng.normal(size=(120, 784))
    X[7] *= 3
    page = render(detect(X, random_state=0, n_estimators=10))
    assert payload(page)["top"][0]["label"] == "row 7"
    assert "784 used" in words_of(page) and len(page) < LARGEST / 5


def test_true_and_false_are_never_high_or_low(rng):
    frame = pd.DataFrame({"amount": rng.normal(size=400), "express": np.arange(400) == 17, "who": np.arange(400) // 20})
    frame.loc[frame["who"] == 3, "express"] = True
    how = {"features": ["amount", "express"], "random_state": 0, "n_estimators": 20}
    words = " ".join(detect(frame, **how).reasons)
    assert "express true" in words and not re.search(r"express \w+ \((high|low)", words)
    assert detect(frame, by="who", **how).reasons[0].startswith("express true (100 %")


def test_p_values_are_of_new_rows_alone_and_alarms_are_counted(rows, model, frame):
    assert payload(render(rows))["measure"] != "p"
    frame.loc[:20, "amount"] = 9
    frame.loc[0, "amount"] = 1e6
    ranking = model.score(frame)
    page = render(ranking)
    assert payload(page)["measure"] == "p" and "extrapolated" in payload(page)["top"][0]["odd"]
    assert f"{ranking.n_flagged} of 200" in words_of(page) and f"{ranking.n_expected:.3g}" in words_of(page)


@pytest.mark.parametrize("fdr", [0.2, 0.0001])
def test_what_a_false_discovery_rate_flags_is_drawn(model, frame, fdr):
    frame.loc[:20, "amount"] = 9
    ranking = model.score(frame, fdr=fdr)
    page = render(ranking)
    assert f"{ranking.n_flagged} of 200" in words_of(page) and (ranking.n_flagged > 0) == (fdr == 0.2)
    assert below_cut(payload(page)["histogram"]) == ranking.n_flagged


def test_columns_left_out_are_listed_with_the_reason(frame, tmp_path):
    frame["order_id"], frame["note"] = np.arange(200), [f"note {k}" for k in range(200)]
    with pytest.warns(UserWarning, match="order_id"):
        detect(frame, random_state=0, n_estimators=10).report(tmp_path / "r.html", source="May")
    page = (tmp_path / "r.html").read_text("utf-8")
    rows = re.findall(r"<tr><td><bdi>(\w+)</bdi></td><td>([\w ]+)</td><td>(\w+)</td>.*?<td>(.*?)</td></tr>", page)
    columns = {name: (use, kind, reason) for name, use, kind, reason in rows}
    assert set(columns) == set(frame.columns)
    assert columns["amount"][:2] == ("used", "number")
    for name in ("order_id", "note"):
        assert columns[name][0] == "left out" and columns[name][2]
    assert "order_id" in words_of(page) and "May" in words_of(page)


def test_rows_and_groups_without_a_score_are_counted(frame):
    frame.loc[:4, "amount"] = np.nan
    page = render(detect(frame, missing="drop", **HOW))
    assert "rows left out 5" in words_of(page) and "rows scored 195" in words_of(page)
    assert sum(payload(page)["histogram"]["counts"]) == 195
    frame.loc[0, "account"] = 99
    page = render(detect(frame, by="account", min_size=2, **HOW))
    assert "groups left out 1" in words_of(page) and len(payload(page)["top"]) == 20
    assert payload(page)["top"][0]["label"].startswith("account ")


def test_a_table_on_disk_has_the_page_of_one_in_memory(frame):
    pages = []
    for kept_bytes in (0, 1 << 26):
        source = FrameSource(open_frame(frame))
        table = read_table(source, by=["account"], spool=lambda n, kept_bytes=kept_bytes: Spool(n, kept_bytes))
        ranking = rank(table, IDKGroupDetector(random_state=0, n_estimators=10))
        pages.append(render(ranking, date=datetime(2031, 2, 3, tzinfo=UTC)))
    assert pages[0] == pages[1]


def test_the_footer_has_date_version_and_command(rows):
    date = datetime(2031, 2, 3, 4, 5, tzinfo=UTC)
    words = words_of(render(rows, command="isobag detect 'a b.csv' --id-column who", date=date))
    for fact in ("2031-02-03 04:05 UTC", f"isobag {isobag.__version__}", "isobag detect 'a b.csv' --id-column who"):
        assert fact in words


def test_the_command_writes_the_words_of_its_table(frame, tmp_path):
    frame.to_csv(tmp_path / "a.csv", index=False)
    args = ["detect", str(tmp_path / "a.csv"), "--by", "account", "-t", "10", "--seed", "0", "-q"]
    result = CliRunner().invoke(app, [*args, "--out", str(tmp_path / "o.csv"), "--report", str(tmp_path / "r.html")])
    assert result.exit_code == 0, result.output
    with open(tmp_path / "o.csv", encoding="utf-8", newline="") as file:
        words = [row["reasons"] for row in csv.DictReader(file)]
    assert [one["words"] for one in payload((tmp_path / "r.html").read_text("utf-8"))["top"]] == words


@pytest.mark.parametrize(
    "X",
    [np.arange(30.0)[:, None] ** 2, np.zeros((20, 2)), np.random.default_rng(0).normal(size=(300, 60)), np.eye(3)],
    ids=["one column", "constant", "many columns", "three rows"],
)
def test_rows_of_any_shape_make_a_page(X):
    names = [f"x{j}" for j in range(X.shape[1])]
    histogram = payload(render(detect(X, features=names, random_state=0, n_estimators=7)))["histogram"]
    assert sum(histogram["counts"]) == len(X)
    assert np.all(np.diff(histogram["edges"]) > 0)


@pytest.mark.parametrize("n_groups", [2, 3, 12])
@pytest.mark.parametrize("spread", [0, 1])
def test_groups_of_any_number_make_a_page(n_groups, spread):
    ids = np.repeat(np.arange(n_groups), np.arange(n_groups) + 1)
    X = spread * np.random.default_rng(0).normal(size=(len(ids), 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "g": ids})
    values = payload(render(detect(frame, by="g", features=["a", "b"], random_state=0, n_estimators=7)))
    assert len(values["top"]) == n_groups == sum(values["histogram"]["counts"])


@pytest.mark.parametrize("by", [None, "who"])
def test_the_threshold_ends_a_bin(by, rng):
    frame = pd.DataFrame(rng.normal(size=(800, 2)), columns=list("ab")).assign(who=np.arange(800) // 4)
    ranking = detect(frame, by, features=["a", "b"], random_state=0, n_estimators=10, contamination=0.1)
    histogram = payload(render(ranking))["histogram"]
    assert histogram["cut"] in histogram["edges"] and cut_of(ranking) == ranking.judged.threshold
    assert below_cut(histogram) == ranking.n_flagged


def test_scores_below_zero_have_bins_of_equal_width():
    histogram = histogram_of(np.linspace(-1, 1, 50), -0.5)
    assert not histogram["in_ratio"] and sum(histogram["counts"]) == 50
    assert_allclose(np.diff(histogram["edges"]), np.diff(histogram["edges"])[0], rtol=1e-3)


def test_a_sample_is_the_same_every_time():
    assert_array_equal(choose_some(5, 9), np.arange(5))
    assert np.all(np.diff(choose_some(1_000, 50)) > 0) and len(choose_some(1_000, 50)) == 50
    assert_array_equal(choose_some(1_000, 50), choose_some(1_000, 50))


def test_a_report_is_written_whole_or_not_at_all(rows, tmp_path, monkeypatch):
    write_report(rows, tmp_path / "r.html", source=HALF)
    assert (tmp_path / "r.html").read_text("utf-8").endswith("</html>")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="disk is full"):
        write_report(rows, tmp_path / "other.html")
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]


def test_a_missing_library_is_named():
    code = "import sys; sys.modules['jinja2'] = None; from isobag.report.template import fill_template as f; f('x')"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert re.search(r"^ImportError: .*jinja2.*isobag\[report\]", result.stderr.splitlines()[-1])


@pytest.mark.parametrize("make", [million_rows, pytest.param(many_groups, marks=pytest.mark.slow)])
def test_a_large_report_is_small(make):
    page = render(make())
    assert len(page.encode()) < LARGEST
    assert len(payload(page)["top"]) == 200


def test_columns_that_are_kept_stand_beside_the_row(frame):
    frame["city"], frame["price"] = [f"city {k}" for k in range(200)], np.nan
    frame.loc[3, ["amount", "price"]] = 50.0, 9999.99
    page = render(detect(frame, keep=["city", "price"], **HOW))
    assert payload(page)["top"][0]["label"] == "row 3"
    assert payload(page)["top"][0]["values"] == ["city 3", "9,999.99"]
    assert '<td class="value" data-name="city"><bdi>city 3</bdi></td>' in page
    assert "city 3" not in render(detect(frame, **HOW))
    names = [f"more {k}" for k in range(20)]
    cut = render(detect(frame.assign(**dict.fromkeys(names, 1)), keep=names, **HOW))
    assert 'data-name="more 11"' in cut and 'data-name="more 12"' not in cut and "8 more" in words_of(cut)


@pytest.mark.parametrize(("contamination", "n_rows"), [(0.01, 1_500), (0.3, 1_500), (0.5, 3_000)])
def test_all_that_are_flagged_are_in_the_table_or_counted(rng, contamination, n_rows):
    ranking = detect(
        pd.DataFrame(rng.normal(size=(n_rows, 2))), contamination=contamination, random_state=0, n_estimators=5
    )
    page = render(ranking)
    table = page[page.index('<table id="table">') :]
    n_listed = table[: table.index("</table>")].count('<td class="label"')
    assert n_listed == max(200, min(1_000, ranking.n_flagged))
    n_more = re.search(r"([\d,]+) more are flagged", words_of(page))
    assert (int(n_more[1]) if n_more else 0) == ranking.n_flagged - min(ranking.n_flagged, 1_000)

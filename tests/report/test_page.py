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
from reading import read_table
from report_tables import HALF, HOSTILE, LONG, hostile_groups, many_groups, million_rows

import isobag
from isobag import IDKGroupDetector, IDKPointDetector, detect
from isobag.data.spool import Spool
from isobag.models.calibration import Calibration
from isobag.models.group import GroupModel
from isobag.models.point import PointModel
from isobag.models.views import Views
from isobag.report import report_groups, report_points, write_report
from isobag.report.findings import choose_some, cut_of, histogram_of
from isobag.report.page import render
from isobag.report.template import embedded
from isobag.tables.detect import open_frame
from isobag.tables.framesource import FrameSource
from isobag.tables.ranking import rank
from isobag.tables.reasons import NO_COLUMN
from isobag.tables.terminal import LONGEST, escape_for_terminal, shown

LARGEST = 3_000_000


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


@pytest.fixture
def frame(rng):
    found = pd.DataFrame({"amount": rng.normal(size=200), "hour": rng.normal(size=200)})
    found["account"] = np.repeat(np.arange(20), 10)
    return found


@pytest.fixture
def normal(rng):
    return pd.DataFrame(rng.normal(size=(400, 2)), columns=["amount", "hour"])


def rank_new(normal, frame, **how):
    detector = IDKPointDetector(random_state=0, n_estimators=20).fit(normal)
    table = read_table(FrameSource(open_frame(frame)), features=["amount", "hour"])
    return rank(table, detector, is_fitted=True, **how)


@pytest.mark.parametrize("name", ["rows", "groups"])
@pytest.mark.parametrize("text", [HOSTILE[0], HOSTILE[1], HOSTILE[2], HALF])
def test_text_from_the_data_never_becomes_markup(name, text, request):
    page = render(request.getfixturevalue(name), source=text, command=f"isobag points {text}")
    elements = Elements(page).tags
    assert [attrs for tag, attrs in elements if tag == "script"] == [{"type": "application/json", "id": "data"}, {}]
    assert not [attrs for _, attrs in elements if any(key.startswith("on") or key == "src" for key in attrs)]
    assert not [attrs for _, attrs in elements if "style" in attrs]
    assert all(attrs["href"].startswith("#") for _, attrs in elements if "href" in attrs)
    assert not [tag for tag, _ in elements if tag in ("img", "link", "iframe", "b", "u", "object", "form", "base")]
    assert "\0" not in page and "\u202e" not in page and "49" not in "".join(re.findall(r"&amp;lt;b.{0,40}", page))
    labels = {entry["label"] for entry in payload(page)["top"]}
    assert {shown(label) for label in HOSTILE[:3]} <= labels and "" not in labels
    assert page.encode("utf-8", "replace")


def test_text_from_the_data_is_tamed_and_cut_in_the_middle():
    assert shown("a\0b\u202ec\ud800") == escape_for_terminal("a\0b\u202ec\ud800") == "a\\x00b\\u202ec\\ud800"
    assert shown("😀 <b>") == "😀 <b>"
    long = shown("begin " + "x" * 5_000 + " end")
    assert len(long) == LONGEST + 1 and long.startswith("begin ") and long.endswith(" end") and "…" in long
    assert "<" not in embedded(HOSTILE) and json.loads(embedded(HOSTILE)) == HOSTILE


@pytest.mark.parametrize("name", ["rows", "groups"])
def test_the_page_says_what_the_ranked_table_says(name, request):
    ranking = request.getfixturevalue(name)
    top, columns = payload(render(ranking))["top"], ranking.columns(0, 200)
    assert len(top) == 200
    assert [one["words"] for one in top] == [shown(words) for words in columns["reasons"]]
    assert all(one["words"] for one in top)
    assert [one["rank"] for one in top] == columns["rank"].tolist()
    assert [one["flagged"] for one in top] == columns["flagged"].tolist()
    np.testing.assert_allclose([one["score"] for one in top], columns["score"], rtol=1e-3)
    np.testing.assert_allclose([one["p"] for one in top], columns["rank_share"], rtol=1e-3)
    labels = [shown(label) or "(empty)" for label in next(iter(columns.values())).to_pylist()]
    assert [one["label"] for one in top] == labels
    if name == "groups":
        assert [one["size"] for one in top] == columns["n_points"].tolist()


def test_the_bars_of_a_row_begin_with_the_columns_of_its_words(rows):
    found = payload(render(rows))
    told = [one for one in found["top"] if one["words"] != NO_COLUMN]
    assert len(told) > 50
    for one in told:
        first = found["columns"][one["why"][0][0]]
        assert one["words"].startswith(first[:100]) and one["why"][0][2] in one["words"]
        assert [part for _, part, *_ in one["why"]] == sorted((part for _, part, *_ in one["why"]), reverse=True)


def test_the_pictures_of_a_group_begin_with_the_features_of_its_words(groups):
    found = payload(render(groups))
    for one in found["top"]:
        of_columns = re.sub(r"^n_points [\d,]+ \((low|high), usually [\d,to ]+\), ", "", one["words"])
        assert of_columns.startswith(found["features"][one["why"][0][0]])


def test_nothing_is_learned_scored_or_explained_again(rows, groups, monkeypatch):
    def never(*_, **__):
        raise AssertionError("computed twice")

    for model in (PointModel, GroupModel):
        for verb in ("scores", "explain"):
            monkeypatch.setattr(model, verb, never)
    monkeypatch.setattr(Calibration, "p_values", never)
    monkeypatch.setattr(PointModel, "path", never)
    monkeypatch.setattr("isobag.data.groups.number_labels", never)
    monkeypatch.setattr("isobag.tables.labels.number_labels", never)
    mapped, compute = [], Views.mean_maps
    monkeypatch.setattr(Views, "mean_maps", lambda *args, **how: mapped.append(1) or compute(*args, **how))
    assert render(rows) and not mapped
    assert render(groups) and len(mapped) == 1


def test_groups_of_two_points_say_so():
    ranking = hostile_groups()
    tiny = next(one for one in payload(render(ranking))["top"] if one["label"] == "tiny")
    assert tiny["size"] == 2 and tiny["words"].startswith("n_points 2 (low, usually ")


def test_indicators_are_bars_and_numbers_are_points(groups):
    found = payload(render(groups))
    channels = [j for j, name in enumerate(found["features"]) if name.startswith("channel=")]
    assert channels
    for one in found["top"]:
        for j, _, values in one["why"]:
            assert isinstance(values, float) == (j in channels)
            assert isinstance(found["population"][str(j)], float) == (j in channels)
            assert j in channels or len(values) == one["sampled"] == min(one["size"], 120)


def test_a_map_of_rows_begins_with_numbers_unless_there_are_none(rng):
    flags = pd.DataFrame(rng.random((100, 4)) < 0.2, columns=list("abcd")).astype(int)
    both = flags.assign(u=rng.normal(size=100), v=rng.normal(size=100))
    for table, wanted in ((flags, {"indicator"}), (both, {""})):
        found = payload(render(detect(table, random_state=0, n_estimators=10)))["map"]
        assert {found["kinds"][axis] for axis in found["start"]} == wanted


def test_reasons_of_many_columns(rng):
    X = rng.normal(size=(120, 784))
    X[7] *= 3
    ranking = detect(X, random_state=0, n_estimators=10)
    page = render(ranking)
    top = payload(page)["top"]
    assert top[0]["label"] == "row 7"
    assert all(
        re.search(
            r"^x\d+ \S+ \((high|low|unusual in this row), usually \S+ to \S+\), .* other columns, each less$",
            one["words"],
        )
        for one in top
    )
    assert "784 used" in words_of(page)
    assert len(page) < LARGEST / 5


def test_true_and_false_are_rare_or_often_not_high_or_low(rng):
    frame = pd.DataFrame({"amount": rng.normal(size=400), "express": np.arange(400) == 17, "who": np.arange(400) // 20})
    frame.loc[frame["who"] == 3, "express"] = True
    how = {"features": ["amount", "express"], "random_state": 0, "n_estimators": 20}
    words = " ".join(detect(frame, **how).reasons)
    assert re.search(r"express true \((rare|unusual)\)", words)
    assert not re.search(r"express \w+ \((high|low)", words)
    assert detect(frame, by="who", **how).reasons[0].startswith("express true (100 %, usually ")


def test_what_to_do_next_is_honest_about_tables_that_were_learned_from(rows, frame):
    words = words_of(render(rows))
    assert "Look at these 5 first" in words and "as many as were asked for, whether or not anything is wrong" in words
    assert "would be flagged if all were like" not in words
    for one in payload(render(rows))["top"][:5]:
        assert one["words"] in words
    few = words_of(render(detect(frame[:18], random_state=0, n_estimators=10)))
    assert "Too few rows score differently" in few and "Nothing is flagged; the oddest" in few


def test_a_share_of_rank_is_not_called_a_p_value(rows, normal, frame):
    assert payload(render(rows))["measure"] == "share of rows at least as odd"
    assert "% of rows are at least as odd" in words_of(render(rows)) and "p 0." not in words_of(render(rows))
    frame.loc[0, "amount"] = 1e6
    page = render(rank_new(normal, frame))
    assert payload(page)["measure"] == "p" and payload(page)["top"][0]["odd"].endswith(", extrapolated")


def test_what_to_do_next_counts_the_alarms_that_would_be_false(normal, frame):
    frame.loc[:20, "amount"] = 9
    ranking = rank_new(normal, frame)
    assert f"About {ranking.n_expected:.3g} of them would be flagged if all were like the training data." in words_of(
        render(ranking)
    )
    like = rank_new(normal, normal)
    assert "alarms may be false" in words_of(render(like)) or not like.flagged.any()
    assert "not known: there are no p-values" in words_of(render(rank_new(normal, frame, p_values=False)))


@pytest.mark.parametrize("fdr", [0.2, 0.0001])
def test_a_false_discovery_rate_is_told_and_drawn(normal, frame, fdr):
    frame.loc[:20, "amount"] = 9
    ranking = rank_new(normal, frame, fdr=fdr)
    page = render(ranking)
    n_flagged = np.count_nonzero(ranking.flagged)
    assert (n_flagged > 0) == (fdr == 0.2)
    said = (
        f"{n_flagged} rows flagged; expect" if n_flagged else "No row stands out at a false discovery rate of 0.0001."
    )
    assert said in words_of(page)
    found = payload(page)["histogram"]
    below = 0
    if found["cut"] is not None:
        edges = found["edges"][1:]
        below = sum(count for count, edge in zip(found["counts"], edges, strict=True) if edge <= found["cut"])
    assert below == n_flagged


def test_columns_left_out_are_listed_with_the_reason(frame, tmp_path):
    frame["order_id"], frame["note"], frame["same"] = np.arange(200), "x", 1.0
    with pytest.warns(UserWarning, match="Left out"):
        report_points(frame, tmp_path / "r.html", random_state=0, n_estimators=10, source="May")
    page = (tmp_path / "r.html").read_text("utf-8")
    rows = re.findall(r"<tr><td><bdi>(\w+)</bdi></td><td>([\w ]+)</td><td>(\w+)</td>.*?<td>(.*?)</td></tr>", page)
    found = {name: (use, kind, reason) for name, use, kind, reason in rows}
    assert set(found) == set(frame.columns)
    assert found["amount"][:2] == ("used", "number")
    for name in ("order_id", "note"):
        assert found[name][0] == "left out" and found[name][2]
    assert "an identifier by its name" in found["order_id"][2]
    assert "Left out: order_id" in words_of(page) and "May" in words_of(page)


def test_missing_values_are_told(frame):
    frame.loc[:4, "amount"] = np.nan
    filled = detect(frame, features=["amount", "hour"], missing="median", random_state=0, n_estimators=10)
    dropped = detect(frame, features=["amount", "hour"], missing="drop", random_state=0, n_estimators=10)
    assert "rows with filled gaps 5" in words_of(render(filled))
    assert "rows left out 5" in words_of(render(dropped)) and "rows scored 195" in words_of(render(dropped))
    assert sum(payload(render(dropped))["histogram"]["counts"]) == 195


def test_a_table_on_disk_has_the_page_of_one_in_memory(frame):
    pages = []
    for kept_bytes in (0, 1 << 26):
        source = FrameSource(open_frame(frame))
        table = read_table(source, by=["account"], spool=lambda n, kept=kept_bytes: Spool(n, kept))
        ranking = rank(table, IDKGroupDetector(random_state=0, n_estimators=10, calibrate=False))
        pages.append(render(ranking, date=datetime(2031, 2, 3, tzinfo=UTC)))
    assert pages[0] == pages[1]


def test_small_groups_that_were_left_out_are_told(frame):
    frame.loc[0, "account"] = 99
    page = render(detect(frame, by="account", min_size=2, random_state=0, n_estimators=10))
    assert "groups left out 1" in words_of(page) and len(payload(page)["top"]) == 20
    assert payload(page)["top"][0]["label"].startswith("account ")


def test_the_footer_has_date_version_and_command(rows):
    date = datetime(2031, 2, 3, 4, 5, tzinfo=UTC)
    words = words_of(render(rows, command="isobag points 'a b.csv' --id-column who", date=date))
    assert "date 2031-02-03 04:05 UTC" in words and f"isobag {isobag.__version__}" in words
    assert "isobag points 'a b.csv' --id-column who" in words
    assert "command" not in words_of(render(rows)).split("How this page was made")[1]


@pytest.mark.parametrize("by", [None, "account", ["account", "hour_of_day"]])
def test_reports_of_frames_rank_as_detect_does(frame, by, tmp_path):
    frame["hour_of_day"] = np.arange(200) % 2
    how = {"features": ["amount", "hour"], "random_state": 0, "n_estimators": 10}
    if by is None:
        report_points(frame, tmp_path / "r.html", **how)
        wanted = detect(frame, **how).to_frame()
    else:
        report_groups(frame, by, tmp_path / "r.html", **how)
        wanted = detect(frame, by, **how).to_frame()
    top = payload((tmp_path / "r.html").read_text("utf-8"))["top"]
    assert [one["words"] for one in top] == wanted["reasons"].tolist()[: len(top)]
    assert len(top) == min(200, len(wanted))


def test_reports_of_frames_refuse_what_detect_refuses(frame, tmp_path):
    with pytest.raises(ValueError, match=r"contamination=0\.9"):
        report_points(frame, tmp_path / "r.html", contamination=0.9)
    with pytest.raises(ValueError, match="no such column"):
        report_groups(frame, "nobody", tmp_path / "r.html")
    assert not list(tmp_path.iterdir())


def test_the_command_writes_the_words_of_its_table(frame, tmp_path):
    from typer.testing import CliRunner

    from isobag.cli.app import app

    frame.to_csv(tmp_path / "a.csv", index=False)
    args = ["groups", str(tmp_path / "a.csv"), "--by", "account", "-t", "10", "--seed", "0", "-q"]
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
@pytest.mark.parametrize("p_values", [True, False])
def test_rows_of_any_shape_make_a_page(X, p_values):
    names = [f"x{j}" for j in range(X.shape[1])]
    found = payload(render(detect(X, features=names, random_state=0, n_estimators=7, p_values=p_values)))
    assert sum(found["histogram"]["counts"]) == len(X)
    assert np.all(np.diff(found["histogram"]["edges"]) > 0)
    assert all((one["p"] is None) != p_values for one in found["top"])


@pytest.mark.parametrize("n_groups", [2, 3, 12])
@pytest.mark.parametrize("spread", [0, 1])
@pytest.mark.parametrize("mechanism", ["auto", "tree"])
def test_groups_of_any_number_make_a_page(n_groups, spread, mechanism):
    ids = np.repeat(np.arange(n_groups), np.arange(n_groups) + 1)
    X = spread * np.random.default_rng(0).normal(size=(len(ids), 2))
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "g": ids})
    how = {"random_state": 0, "n_estimators": 7, "point_mechanism": mechanism, "features": ["a", "b"]}
    found = payload(render(detect(frame, by="g", **how)))
    assert len(found["top"]) == n_groups == sum(found["histogram"]["counts"])


@pytest.mark.parametrize("by", [None, "who"])
def test_the_threshold_ends_a_bin(by, rng):
    frame = pd.DataFrame(rng.normal(size=(800, 2)), columns=list("ab")).assign(who=np.arange(800) // 4)
    how = {"features": ["a", "b"], "random_state": 0, "n_estimators": 10, "contamination": 0.1}
    ranking = detect(frame, **how, **({} if by is None else {"by": by}))
    found = payload(render(ranking))["histogram"]
    below = [count for count, edge in zip(found["counts"], found["edges"][1:], strict=True) if edge <= found["cut"]]
    assert found["cut"] in found["edges"] and cut_of(ranking) == ranking.judged.threshold
    assert sum(below) == np.count_nonzero(ranking.flagged)


def test_scores_below_zero_have_bins_of_equal_width():
    found = histogram_of(np.linspace(-1, 1, 50), -0.5)
    assert not found["in_ratio"] and sum(found["counts"]) == 50
    np.testing.assert_allclose(np.diff(found["edges"]), np.diff(found["edges"])[0], rtol=1e-3)


def test_a_sample_is_the_same_every_time():
    np.testing.assert_array_equal(choose_some(5, 9), np.arange(5))
    assert np.all(np.diff(choose_some(1_000, 50)) > 0) and len(choose_some(1_000, 50)) == 50
    np.testing.assert_array_equal(choose_some(1_000, 50), choose_some(1_000, 50))


def test_a_report_is_written_whole_or_not_at_all(rows, tmp_path, monkeypatch):
    write_report(rows, tmp_path / "r.html", source=HALF)
    assert (tmp_path / "r.html").read_text("utf-8").endswith("</html>")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="the disk is full"):
        write_report(rows, tmp_path / "other.html")
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]


def test_a_missing_library_is_named_in_one_sentence():
    code = "import sys; sys.modules['jinja2'] = None; from isobag.report.template import fill_template as f; f('x')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.stderr.splitlines()[-1] == (
        'ImportError: Reports need jinja2, which is missing: pip install "isobag[report]".'
    )


@pytest.mark.parametrize("make", [million_rows, many_groups])
def test_a_large_report_is_small(make):
    page = render(make())
    assert len(page.encode()) < LARGEST
    assert len(payload(page)["top"]) == 200


def test_a_long_name_keeps_its_end(rows):
    assert shown(LONG) in payload(render(rows))["columns"] and LONG[-11:] in shown(LONG)


def test_columns_that_are_kept_stand_beside_the_row(frame):
    frame["city"], frame["price"] = [f"city {k}" for k in range(200)], np.nan
    frame.loc[3, ["amount", "price"]] = 50.0, 9999.99
    how = {"features": ["amount", "hour"], "random_state": 0, "n_estimators": 20}
    page = render(detect(frame, keep=["city", "price"], **how))
    words = words_of(page)
    first = words[words.index("Look at these") : words.index("rows are flagged")]
    assert "row 3" in first and "city city 3" in first and "price 9,999.99" in first and "(high, usually" in first
    assert '<td class="value" data-name="city"><bdi>city 3</bdi></td>' in page
    bare = render(detect(frame, **how))
    assert "city 3" not in bare and "amount 50 (high, usually" in words_of(bare)
    wide = frame.assign(**{f"more {k}": k for k in range(20)})
    cut = render(detect(wide, keep=[f"more {k}" for k in range(20)], **how))
    assert 'data-name="more 11"' in cut and 'data-name="more 12"' not in cut and "8 more columns are kept" in cut


def test_a_row_without_a_reason_is_shown_by_its_largest_parts(rows, monkeypatch):
    plain = dataclasses.replace(rows, reasons=[NO_COLUMN] * len(rows.reasons))
    one = payload(render(plain))["top"][0]
    assert one["more"] and one["more"].startswith(rows.encoding.columns[one["why"][0][0]].name)
    assert one["more"] in words_of(render(plain))


def test_what_is_not_flagged_is_marked_so(frame):
    ranking = detect(frame, features=["amount", "hour"], contamination=0.01, random_state=0, n_estimators=20)
    assert ranking.n_flagged == 2
    first = words_of(render(ranking)).split("Look at these 5 first")[1].split("rows are flagged")[0]
    assert first.count("not flagged") == 3 and first.count("flagged") == 5


@pytest.mark.parametrize(("contamination", "n_listed", "n_more"), [(0.1, 200, 0), (0.3, 450, 0), (0.5, 1_000, 500)])
def test_all_that_are_flagged_are_in_the_table_or_counted(rng, contamination, n_listed, n_more):
    n = 3_000 if n_more else 1_500
    wide = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    ranking = detect(wide, contamination=contamination, random_state=0, n_estimators=5)
    page = render(ranking)
    table = page[page.index('<table id="table">') :]
    n_rows = table[: table.index("</table>")].count('<td class="label"')
    assert n_rows == max(200, min(1_000, ranking.n_flagged)) and abs(n_rows - n_listed) < 20
    said = re.search(r"([\d,]+) more are flagged: the option --out", words_of(page))
    assert (int(said[1]) if said else 0) == ranking.n_flagged - min(ranking.n_flagged, 1_000)

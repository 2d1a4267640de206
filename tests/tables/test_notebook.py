"""A ranking in a notebook: the oddest with reasons, all scores in one picture, text of the data without effect."""

import sys
from xml.etree import ElementTree

import narwhals as nw
import numpy as np
import pandas as pd
import pytest

from isobag import detect, fit
from isobag.tables.detect import encoding_of
from isobag.tables.framesource import FrameSource
from isobag.tables.learn import learn_table
from isobag.tables.notebook import cut_of
from isobag.tables.ranking import rank
from isobag.tables.reading import ReadOptions

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e$\\frac"
HOW = {"random_state": 0}


@pytest.fixture(scope="module")
def frame():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b<i>"]).assign(who=[f"n{i}" for i in range(300)])
    frame.loc[7, ["a", "b<i>"]] = 9.0
    frame.loc[7, "who"] = HOSTILE
    return frame


@pytest.fixture(scope="module")
def ranking(frame):
    return detect(frame, features=["a", "b<i>"], id_column="who", **HOW)


def cells_of(ranking):
    table = ElementTree.fromstring(ranking._repr_html_()).find("table")
    names = [one.text for one in table.find("thead/tr")]
    return [dict(zip(names, [one.text for one in row], strict=True)) for row in table.find("tbody")]


def test_the_table_has_the_oddest_in_order_with_their_reasons(ranking):
    rows = cells_of(ranking)
    assert [int(row["row"]) for row in rows] == ranking.order[:10].tolist()
    assert [row["reasons"] for row in rows] == ranking.reasons[:10]
    assert rows[0]["flagged"] == "yes"


def test_text_of_the_data_is_escaped_by_the_rule_of_the_terminal_and_for_html(ranking):
    html = ranking._repr_html_()
    assert "<script" not in html and "\x1b" not in html and "\u202e" not in html and "<i>" not in html
    assert cells_of(ranking)[0]["who"] == "<script>alert(1)</script>\\x1b[2J\\u202e$\\\\frac"


def test_a_ranking_of_one_score_or_of_groups_with_none_is_shown_too(frame):
    alike = detect(pd.DataFrame({"a": [1.0] * 30}), features=["a"], **HOW)
    assert len(cells_of(alike)) == 10
    groups = detect(frame.assign(who=frame.index % 30), by="who", features=["a"], **HOW, min_size=10)
    assert {"who", "n_points", "reasons"} <= set(cells_of(groups)[0])


def test_the_plot_has_scores_by_rank_the_threshold_and_names_of_the_oddest(ranking):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")
    ax = ranking.plot(n_labels=2)
    drawn = {line.get_label(): line.get_xydata() for line in ax.get_lines()}
    assert drawn["flagged"][0].tolist() == [1.0, np.nanmin(ranking.scores)]
    assert len(drawn["flagged"]) == ranking.n_flagged and len(drawn["flagged"]) + len(drawn["not flagged"]) == 300
    assert drawn[ranking.rule][0][1] == ranking.judged.threshold
    assert ax.texts[0].get_text() == cells_of(ranking)[0]["who"] and len(ax.texts) == 2
    ax.figure.canvas.draw()  # a dollar in a name is no formula
    assert ranking.plot(ax=ax) is ax
    matplotlib.pyplot.close(ax.figure)


def test_with_a_false_discovery_rate_the_line_divides_the_flagged_from_the_rest(frame):
    matplotlib = pytest.importorskip("matplotlib")
    model = fit(frame[20:], features=["a", "b<i>"], **HOW)
    encoding = encoding_of(model.detector, list(frame.columns), [])
    table = learn_table(FrameSource(nw.from_native(frame[:20])), ReadOptions.of(), encoding=encoding)
    ranking = rank(table, model.detector, is_fitted=True, fdr=0.1)
    ax = ranking.plot()
    line = {one.get_label(): one.get_ydata() for one in ax.get_lines()}[ranking.rule][0]
    assert (ranking.flagged == (ranking.scores < line)).all() and ranking.flagged.any()
    matplotlib.pyplot.close(ax.figure)


def test_the_line_is_of_the_rule_applied_and_below_all_scores_where_nothing_is_flagged(frame):
    model = fit(frame[20:], features=["a", "b<i>"], **HOW)
    encoding = encoding_of(model.detector, list(frame.columns), [])
    table = learn_table(FrameSource(nw.from_native(frame[:20])), ReadOptions.of(), encoding=encoding)
    few = rank(table, model.detector, is_fitted=True, budget=0.1)
    assert few.flagged.any() and cut_of(few) != few.judged.threshold
    assert (few.flagged == (few.scores < cut_of(few))).all()
    assert cut_of(rank(table, model.detector, is_fitted=True, budget=1e-9)) == -np.inf
    none = detect(frame[20:], features=["a", "b<i>"], **HOW)
    assert not none.flagged.any() and cut_of(none) <= none.scores.min()


def test_without_matplotlib_one_sentence_says_what_to_install(ranking, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ModuleNotFoundError, match="pip install matplotlib"):
        ranking.plot()

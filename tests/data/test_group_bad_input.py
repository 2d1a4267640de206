"""IDKGroupDetector refuses what it cannot use, in one clear sentence that names the group or the row, and the value."""

import re

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.exceptions import NotFittedError

from isobag import IDKGroupDetector


def assert_one_clear_sentence(error, *facts):
    message = str(error.value)
    assert "\n" not in message.strip()
    assert len(message) < 300
    for fact in facts:
        assert re.search(fact, message), f"{fact!r} is missing from: {message}"


USES = ["fit", "score_samples", "predict", "decision_function", "rank", "fit_predict"]
MISSING = {
    "None": lambda labels: [*labels[:13], None, *labels[14:]],
    "nan": lambda labels: np.where(np.arange(60) == 13, np.nan, np.arange(60) % 7),
    "''": lambda labels: np.where(np.arange(60) == 13, "", labels),
    "NaT": lambda labels: [*labels[:13], pd.NaT, *labels[14:]],
    "<NA>|nan|None": lambda labels: pd.Series([*labels[:13], pd.NA, *labels[14:]], dtype="string"),
    "nan|None": lambda labels: pd.Series(np.where(np.arange(60) == 13, None, labels)).astype("category"),
    "None|nan": lambda labels: pl.Series([*range(13), None, *range(14, 60)]),
    "NaT|None": lambda labels: np.where(
        np.arange(60) == 13, np.datetime64("NaT", "ns"), np.datetime64("2024-01-01", "ns")
    ),
}


@pytest.mark.parametrize("value", MISSING)
@pytest.mark.parametrize("use", ["fit", "score_samples"])
def test_a_missing_label_is_named_with_its_row(use, value, X):
    labels = [f"acct-{i % 7}" for i in range(60)]
    detector = IDKGroupDetector(5, 4, 3).fit(X, groups=labels)
    with pytest.raises(ValueError) as error:
        getattr(detector, use)(X, groups=MISSING[value](labels))
    assert_one_clear_sentence(error, r"label", r"\brow 13\b", value)


@pytest.mark.parametrize("use", USES)
def test_a_value_that_is_no_number_is_named_with_group_row_and_column(use, X):
    labels = [f"acct-{i % 7}" for i in range(60)]
    spoilt = X.copy()
    spoilt[16, 1] = np.inf
    detector = IDKGroupDetector(5, 4, 3).fit(X, groups=labels)
    with pytest.raises(ValueError) as error:
        getattr(detector, use)(spoilt, groups=labels)
    assert_one_clear_sentence(error, r"^Group 'acct-2'", "inf", r"\brow 16\b", r"\bcolumn 1\b")
    with pytest.raises(ValueError) as error:
        getattr(detector, use)([X[:10], spoilt[10:20], X[20:]])
    assert_one_clear_sentence(error, r"^Group 1\b", "inf", r"\brow 6\b", r"\bcolumn 1\b")


BAD_LISTS = {
    "other columns": (lambda X: [X[:20], X[20:40], np.ones((4, 3))], [r"Group 2\b", "3 features", r"\b2\b"]),
    "an empty array": (lambda X: [X[:20], np.empty((0, 2)), X[40:]], [r"Group 1\b", r"\b0 sample|empty|no points"]),
    "an empty list": (lambda X: [X[:20], [], X[40:]], [r"[Gg]roup 1\b", r"0|empty|no points"]),
    "a row instead of rows": (lambda X: [X[:20], X[20], X[40:]], [r"[Gg]roup 1\b"]),
    "text": (lambda X: [X[:20], X[20:40], [["high", 1.0]]], [r"Group 2\b", "'high'", r"\brow 0\b", r"\bcolumn 0\b"]),
    "nothing at all": (lambda X: [], ["empty list"]),
    "points without labels": (lambda X: X, ["groups=None", "label for each row"]),
}


@pytest.mark.parametrize("bad", BAD_LISTS)
@pytest.mark.parametrize("use", USES)
def test_a_bad_group_of_a_list_is_named(use, bad, X):
    make, facts = BAD_LISTS[bad]
    detector = IDKGroupDetector(5, 4, 3).fit([X[:20], X[20:40], X[40:]])
    with pytest.raises(ValueError) as error:
        getattr(detector, use)(make(X))
    assert_one_clear_sentence(error, *facts)


def test_a_frame_with_other_columns_is_refused(X):
    frame = pd.DataFrame({"amount": X[:, 0], "hour": X[:, 1], "account": np.arange(60) % 7})
    detector = IDKGroupDetector(5, 4, 3).fit(frame, groups="account")
    renamed = frame.rename(columns={"hour": "minute"})
    with pytest.raises(ValueError, match="minute"):
        detector.score_samples(renamed, groups="account")
    with pytest.raises(ValueError, match=r"Group 1: (.|\n)*minute"):
        detector.score_samples([frame[["amount", "hour"]], renamed[["amount", "minute"]]])
    with pytest.raises(ValueError, match=r"3 features.*2"):
        detector.fit(X, groups=frame["account"]).score_samples(np.ones((60, 3)), groups=frame["account"])
    for use in ["score_samples", "fit"]:
        with pytest.raises(ValueError) as error:
            getattr(detector, use)(frame, groups="acount")
        assert_one_clear_sentence(error, "groups='acount'", "'amount', 'hour', 'account'")


@pytest.mark.parametrize(
    ("groups", "facts"),
    [
        (["a"] * 59, ["59 labels", "60 rows"]),
        ([], ["0 labels", "60 rows"]),
        (np.zeros((60, 2)), [r"shape \(60, 2\)", "one label for each row"]),
        (5, ["groups=5", "one label for each row"]),
        ("account", ["groups='account'", "not a frame"]),
        ([["a"]] * 60, ["unhashable.*list", "hashable labels"]),
        (["only"] * 60, [r"\b1\b", "group"]),
    ],
)
def test_labels_that_do_not_fit_are_refused(groups, facts, X):
    with pytest.raises((ValueError, TypeError)) as error:
        IDKGroupDetector(5, 4).fit(X, groups=groups)
    assert_one_clear_sentence(error, *facts)


@pytest.mark.parametrize(
    ("name", "value", "facts"),
    [
        *[("group_max_samples", value, [str(value), "2 or more"]) for value in (1, 0, -3, 2.5, True, "all")],
        ("group_max_samples", 8, ["=8", "7 or fewer", "number of groups"]),
        ("max_samples", 61, ["=61", "60 or fewer"]),
        ("max_samples", 1, ["=1", "2 or more"]),
        ("n_estimators", 0, ["=0", "1 or more"]),
        ("scaling", "max", ["'max'", "'minmax'"]),
        *[("contamination", value, [str(value), "at most 0.5"]) for value in (0, 0.6, "much")],
    ],
)
def test_an_option_out_of_range_is_named_with_its_bound(name, value, facts, X):
    with pytest.raises(ValueError) as error:
        IDKGroupDetector(**{name: value}).fit(X, groups=np.arange(60) % 7)
    assert_one_clear_sentence(error, f"^{name}=", *facts)


@pytest.mark.parametrize("use", ["score_samples", "predict", "decision_function", "rank"])
def test_a_detector_without_fit_says_so(use, X):
    with pytest.raises(NotFittedError, match="IDKGroupDetector"):
        getattr(IDKGroupDetector(), use)([X, X])

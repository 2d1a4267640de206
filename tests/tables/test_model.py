"""fit_points, fit_groups and TableModel: learn from one frame, score another, as the command does with files."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import isobag

LIBRARIES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pl.from_pandas(frame).to_arrow(),
}


def day(rng, n=300):
    at = pd.Timestamp("2026-03-02") + pd.to_timedelta(rng.uniform(8, 18, n), unit="h")
    return pd.DataFrame(
        {"who": rng.choice(list("abcdef"), n), "minutes": rng.gamma(3, 10, n), "country": "DE", "at": at}
    )


FEATURES = ["minutes", "country", "at"]


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_model_with_texts_scores_the_frame_it_came_from_and_others(rng, library):
    train, new = day(rng), day(rng, 50)
    train.loc[::3, "country"] = "FR"
    new.loc[7, ["minutes", "country"]] = [900.0, "FR"]
    model = isobag.fit(LIBRARIES[library](train), features=FEATURES, random_state=0, n_estimators=40)
    assert len(model.score(LIBRARIES[library](train)).to_frame()) == 300
    new.loc[8, "country"] = "KP"
    with pytest.warns(UserWarning, match="country: 1 text is unknown to the model, never seen before; row 8 has 'KP'"):
        scored = model.score(LIBRARIES[library](new), id_column="who", fdr=0.1).to_frame()
    assert type(scored) is type(LIBRARIES[library](new))
    table = scored.reset_index(drop=True) if library == "pandas" else pl.DataFrame(scored).to_pandas()
    assert table["row"][:2].tolist() == [8, 7] and table["flagged"][:2].all()
    assert table["reasons"][0] == "country never seen before" and "minutes 900" in table["reasons"][1]
    assert {"who", "p_value", "extrapolated"} <= {*table} and "rank_share" not in table


def test_it_is_the_model_of_the_command_and_says_the_same(rng, tmp_path):
    train, new = day(rng), day(rng, 50)
    model = isobag.fit(train, features=["minutes", "at"], random_state=0, n_estimators=40)
    isobag.save(model.detector, tmp_path / "m.isobag")
    again = isobag.Model(isobag.load(tmp_path / "m.isobag"))
    pd.testing.assert_frame_equal(again.score(new).to_frame(), model.score(new).to_frame())


def test_groups_keep_the_name_of_their_column_and_a_loaded_model_asks_for_it(rng):
    frames = [pd.concat([day(rng, 40).assign(who=i) for i in range(20)], ignore_index=True) for _ in range(2)]
    frames[1].loc[frames[1]["who"] == 3, "minutes"] = 30.0
    model = isobag.fit(frames[0], by="who", features=["minutes"], random_state=0, n_estimators=20)
    scored = model.score(frames[1]).to_frame()
    assert scored["who"][0] == 3 and {"p_value", "p_shape", "p_size"} <= {*scored}
    with pytest.raises(ValueError, match="name the column of their labels with by="):
        isobag.Model(model.detector).score(frames[1])


def test_columns_left_out_are_warned_of_at_fit_and_missing_ones_are_an_error_at_score(rng):
    with pytest.warns(UserWarning, match=r"at: time|at \(time|'at' \(time"):
        model = isobag.fit(day(rng), random_state=0, n_estimators=10)
    with pytest.raises(ValueError, match="no such column"):
        model.score(pd.DataFrame({"hours": np.ones(5)})).to_frame()

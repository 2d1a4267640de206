"""What docs/how_to/persistence.md says of skops: refused unless trusted, only types of ours, the same scores."""

import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal

if os.environ.get("CI_ADAPTERS") != "1":
    pytest.importorskip("skops")
import skops.io

from isobag import IDKGroupDetector, IDKPointDetector, IDKStreamDetector


@pytest.mark.parametrize("kind", [IDKPointDetector, IDKGroupDetector, IDKStreamDetector])
def test_skops_keeps_detectors_and_asks_for_trust_in_our_types_alone(kind, rng):
    X, new = rng.normal(size=(600, 2)), rng.normal(size=(40, 2))
    detector = kind(n_estimators=10, random_state=0)
    if kind is IDKGroupDetector:
        detector.fit(X, groups=np.repeat(np.arange(30), 20))
        new = [new]
    else:
        getattr(detector, "partial_fit" if kind is IDKStreamDetector else "fit")(X)
    packed = skops.io.dumps(detector)
    types = skops.io.get_untrusted_types(data=packed)
    assert types and all(name.startswith(("isobag.", "scipy.sparse.")) for name in types)
    with pytest.raises(skops.io.exceptions.UntrustedTypesFoundException):
        skops.io.loads(packed)
    again = skops.io.loads(packed, trusted=types)
    assert_array_equal(again.score_samples(new), detector.score_samples(new))

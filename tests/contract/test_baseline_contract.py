"""The paper's other point detectors keep scikit-learn's promises as well."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from isobag import IDKPointDetector
from isobag.baselines import INNE


@parametrize_with_checks([IDKPointDetector(method="norm"), INNE(max_samples=4)])
def test_isolation_baselines_keep_every_promise_of_scikit_learn(estimator, check):
    check(estimator)

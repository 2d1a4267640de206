import importlib.util
import inspect
import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.testing import assert_array_equal
from oracle import points as oracle
from oracle.hard_data import KINDS, queries

from isobag import IDKPointDetector, IsolationKernel
from isobag.backends import Compute
from isobag.backends.protocol import Backend

pytestmark = pytest.mark.usefixtures("both_sizes")

RULES = ["nearest", "covering", "smallest"]
MECHANISMS = ["hypersphere", "voronoi"]
WAYS = [("hypersphere", rule) for rule in RULES] + [("voronoi", "nearest"), ("voronoi", "covering")]


def test_every_backend_answers_the_whole_protocol():
    verbs = {name for name, value in vars(Backend).items() if inspect.isfunction(value) and not name.startswith("_")}
    assert len(verbs) > 20
    computes = [Compute("numpy"), Compute("numba")]
    if importlib.util.find_spec("torch"):
        computes.append(Compute("torch", device="cpu"))
    for backend in (compute.verbs for compute in computes):
        for verb in verbs:
            given = inspect.signature(getattr(backend, verb)).parameters
            asked = inspect.signature(getattr(Backend, verb)).parameters
            assert len(given) >= len(asked) - 1, verb  # all but self


def cells_of(X, Q, t, psi, backend, **options):
    return IsolationKernel(t, psi, backend=backend, random_state=0, **options).fit(X).assign_cells(Q)


def assert_same_cells(X, Q, t, psi, n_jobs=(1, 2), **options):
    expected = cells_of(X, Q, t, psi, "numpy", **options)
    for jobs in n_jobs:
        assert_array_equal(cells_of(X, Q, t, psi, "numba", n_jobs=jobs, **options), expected)


@pytest.mark.parametrize("d", [1, 2, 5, 13, 300, *(pytest.param(d, marks=pytest.mark.slow) for d in (3, 11, 40))])
@pytest.mark.parametrize("kind", KINDS)
def test_backends_agree_cell_by_cell(rng, kind, d):
    X = KINDS[kind](rng, 120, d)
    Q = queries(rng, X)
    for psi in (2, 3, 16, 100):
        for mechanism, rule in WAYS:
            assert_same_cells(X, Q, 2, psi, n_jobs=(2,), mechanism=mechanism, rule=rule)


@pytest.mark.parametrize("d", [1, 2, 5, 13, 40])
@pytest.mark.parametrize(
    "kind", ["normal", "integer grid", "90 % duplicates", "1e8 offset", "a few rows far out", "float32"]
)
def test_backends_agree_on_many_queries_with_one_and_two_threads(rng, kind, d):
    X = KINDS[kind](rng, 2000, d)
    Q = queries(rng, X)
    for rule in RULES:
        assert_same_cells(X, Q, 3, 64, rule=rule)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_backends_agree_in_2000_dimensions(rng, kind):
    X = KINDS[kind](rng, 60, 2000)
    Q = queries(rng, X)
    for mechanism, rule in WAYS:
        assert_same_cells(X, Q, 2, 20, n_jobs=(2,), mechanism=mechanism, rule=rule)


@pytest.mark.slow
@pytest.mark.parametrize(("d", "rules"), [(2, RULES), (13, RULES), (60, ["covering"])])
@pytest.mark.parametrize("kind", ["normal", "integer grid", "1e8 offset"])
def test_backends_agree_with_4096_centers(rng, kind, d, rules):
    X = KINDS[kind](rng, 4500, d)
    Q = queries(rng, X)[::9]
    for rule in rules:
        assert_same_cells(X, Q, 1, 4096, rule=rule)


@pytest.mark.parametrize("kind", ["normal", "integer grid", "90 % duplicates", "1e8 offset", "tiny differences"])
@pytest.mark.parametrize("d", [2, 40])
def test_backends_agree_along_the_score_path(rng, kind, d):
    X = KINDS[kind](rng, 300, d)
    paths = [
        IDKPointDetector(5, 256, scaling=None, backend=backend, random_state=0).fit(X).score_path(queries(rng, X)[::2])
        for backend, rng in (("numpy", np.random.default_rng(1)), ("numba", np.random.default_rng(1)))
    ]
    assert_array_equal(*paths)


@pytest.mark.parametrize(
    "dtype", [np.int8, np.int64, np.uint8, bool, np.float16, np.float32, np.float64, ">f8", object]
)
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_any_real_dtype_gives_the_cells_of_its_numbers(rng, dtype, backend):
    X = rng.integers(0, 2, (30, 3)).astype(dtype)
    expected = cells_of(X.astype(float), X.astype(float), 5, 4, "numpy")
    assert_array_equal(cells_of(X, X, 5, 4, backend), expected)


@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_float32_queries_meet_float64_centers_without_rounding_them(rng, backend):
    X = rng.normal(size=(50, 3))
    Q = np.vstack([X, rng.normal(size=(50, 3))]).astype(np.float32)
    expected = cells_of(X, Q.astype(float), 9, 8, "numpy", rule="covering")
    assert_array_equal(cells_of(X, Q, 9, 8, backend, rule="covering"), expected)


@pytest.mark.parametrize("kind", ["tiny differences", "1e8 offset of a grid", "float32 grid with an offset", "normal"])
@pytest.mark.parametrize("d", [1, 2, 13, 50])
def test_cells_are_those_of_exact_arithmetic(rng, kind, d):
    X = KINDS[kind](rng, 20, d)
    a, b = rng.permutation(X), rng.permutation(X)
    # Midpoints are exact ties on a grid; in general position rounding would decide between equal distances.
    Q = np.vstack([X, KINDS[kind](rng, 20, d), X if kind == "normal" else (a + b) / 2]).astype(X.dtype)
    for mechanism, rule in WAYS:
        for backend in ("numpy", "numba"):
            kernel = IsolationKernel(2, 6, mechanism=mechanism, rule=rule, backend=backend, random_state=0).fit(X)
            assert_array_equal(kernel.assign_cells(Q), oracle.assign_cells(Q, kernel.centers_, rule, mechanism))


LAYOUTS = {
    "C order": np.ascontiguousarray,
    "Fortran order": np.asfortranarray,
    "every second row": lambda X: np.repeat(X, 2, axis=0)[::2],
    "every second column": lambda X: np.repeat(X, 2, axis=1)[:, ::2],
    "reversed": lambda X: np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1],
    "nested lists": lambda X: X.tolist(),
}


@st.composite
def dyadic_points(draw, n, d):
    """Small integers times a power of two plus an offset: many ties and duplicates, every square exact."""
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    step = draw(st.sampled_from([2.0**-10, 1.0, 2.0**12]))
    offset = draw(st.sampled_from([0, 0, 2**10]))
    return ((draw(arrays(np.int64, (n, d), elements=st.integers(-5, 5))) + offset) * step).astype(dtype)


@given(data=st.data())
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_cells_match_the_oracle_for_any_shape_dtype_and_layout(backend, data):
    n, d, m = data.draw(st.integers(2, 12)), data.draw(st.integers(1, 5)), data.draw(st.integers(1, 9))
    t, psi = data.draw(st.integers(1, 3)), data.draw(st.integers(2, n))
    mechanism, rule = data.draw(st.sampled_from(WAYS))
    X, Q = data.draw(dyadic_points(n, d)), data.draw(dyadic_points(m, d))
    lay_X, lay_Q = (LAYOUTS[data.draw(st.sampled_from(sorted(LAYOUTS)))] for _ in range(2))
    kernel = IsolationKernel(t, psi, mechanism=mechanism, rule=rule, backend=backend, random_state=n)
    given_X, given_Q = lay_X(X), lay_Q(Q)
    for array in (given_X, given_Q):
        if isinstance(array, np.ndarray):
            array.flags.writeable = data.draw(st.booleans())
    kernel.fit(given_X)
    assert_array_equal(kernel.assign_cells(given_Q), oracle.assign_cells(Q, kernel.centers_, rule, mechanism))
    assert_array_equal(kernel.assign_cells(given_X), oracle.assign_cells(X, kernel.centers_, rule, mechanism))


@given(data=st.data())
def test_backends_agree_on_any_finite_floats(data):
    n, d = data.draw(st.integers(2, 30)), data.draw(st.integers(1, 20))
    values = st.floats(-1e100, 1e100, width=64)
    X = data.draw(arrays(np.float64, (n, d), elements=values))
    psi = data.draw(st.integers(2, n))
    mechanism, rule = data.draw(st.sampled_from(WAYS))
    assert_same_cells(X, X, 2, psi, n_jobs=(1,), mechanism=mechanism, rule=rule)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("backend", ["numpy", "numba"])
def test_a_row_of_the_data_is_never_outside_when_it_is_a_center(rng, backend, mechanism):
    for kind in KINDS:
        kernel = IsolationKernel(10, 8, mechanism=mechanism, backend=backend, random_state=0)
        centers = kernel.fit(KINDS[kind](rng, 40, 3)).centers_
        own = kernel.assign_cells(centers.reshape(-1, 3)).reshape(10, 8, 10)[np.arange(10), :, np.arange(10)]
        first = [[next(k for k in range(8) if (c[k] == c[j]).all()) for j in range(8)] for c in centers]
        assert_array_equal(own, first)


@pytest.mark.parametrize(("backend", "d"), [("numpy", 2), ("numba", 2), ("numba", 50)])
def test_memory_never_holds_every_pair_of_point_and_center(rng, backend, d):
    n, t, psi = 10_000, 20, 512
    X = rng.normal(size=(n, d)).astype(np.float32)
    kernel = IsolationKernel(t, psi, backend=backend, random_state=0).fit(X)
    kernel.assign_cells(X[:100])
    tracemalloc.start()
    kernel.assign_cells(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * t * psi

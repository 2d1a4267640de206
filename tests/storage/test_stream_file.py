"""The state of a stream in a file: it goes on to the same bits."""

import os
import random
import signal
import time

import numpy as np
import pytest

import isobag
from isobag import IDKStreamDetector
from isobag.storage.modelfile import load_with_notes

X = np.random.default_rng(0).normal(size=(500, 3))


@pytest.mark.parametrize("max_samples", ["auto", 16])
@pytest.mark.parametrize("n", [1, 2, 77, 333])
def test_a_loaded_stream_goes_on_to_the_same_bits(n, max_samples, tmp_path):
    path = tmp_path / "state.isobag"
    whole = IDKStreamDetector(100, 9, max_samples, fdr=0.2, reference="first", random_state=1).partial_fit(X[:n])
    if n > 2:
        whole.predict(X[:5])
    isobag.save(whole, path)
    again = isobag.load(path)
    assert again.online_ == whole.online_
    for stream in (whole, again):
        stream.partial_fit(X[n:450])
    assert np.array_equal(again.follow(X[450:]).p_values, whole.follow(X[450:]).p_values)
    assert np.array_equal(again.score_samples(X), whole.score_samples(X))
    assert again.drift_ == whole.drift_


def stream_on(path, rows, size):
    """Go on from a state, some rows at a time, and keep it after each: what a process that may be killed does."""
    detector, notes = (
        load_with_notes(path) if path.exists() else (IDKStreamDetector(200, 9, 16, random_state=1), {"rows": 0})
    )
    for start in range(notes["rows"], len(rows), size):
        stop = min(start + size, len(rows))
        p_values = detector.follow(rows[start:stop]).p_values
        detector.alarms(p_values)
        isobag.save(detector, path, {"rows": stop})


@pytest.mark.slow
def test_killed_fifty_times_while_streaming_its_state_is_that_of_one_run(tmp_path):
    path, whole = tmp_path / "killed.isobag", tmp_path / "whole.isobag"
    rows = np.random.default_rng(2).normal(size=(60_000, 2))
    stream_on(whole, rows, 10_000)  # which also compiles what the other processes need
    draws, marks = random.Random(0), [0]
    for _ in range(50):
        process = os.fork()
        if process == 0:
            stream_on(path, rows, 7)
            os._exit(0)
        time.sleep(draws.uniform(0.02, 0.3))
        os.kill(process, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(process, 0)[1]), "it ended before it was killed: the test needs more rows"
        marks.append(load_with_notes(path)[1]["rows"] if path.exists() else 0)
    assert len(set(marks)) > 20
    stream_on(path, rows, 10_000)
    assert path.read_bytes() == whole.read_bytes()

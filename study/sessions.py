"""Sessions of a log that are made up: one event a row, five grammars, six ways to be odd, up to a fifth of them odd."""

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from isobag import IDKGroupDetector
from study.data import THREADS
from study.harness import Section, Task, mean, table

N_SESSIONS, N_EVENTS = 400, 18
SHARES, SEEDS = (1, 5, 10, 20), (0, 1)
METHODS = ("isobag", "the paper's IDK^2 (16, 16)", "IsolationForest on counts")
MOST_LOSS = 0.03
ERROR, RARE, FOREIGN = 14, (15, 16, 17), (2, 5, 7, 15, 3)
END, MOST_EVENTS = 11, 200


def linear(rng):
    """Open, one or more rounds of three events, close."""
    rounds = [event for _ in range(1 + rng.poisson(3)) for event in (2, rng.choice([3, 4, 5], p=[0.6, 0.3, 0.1]), 6)]
    return [0, 1, *rounds, *([7] if rng.random() < 0.2 else []), 8, 9]


def blocks(rng):
    """A few kinds of sessions, so that most have many twins."""
    k = 3 if rng.random() < 0.9 else 2
    optional = ((0.5, [4] * k), (0.6, [5] * k + [6] * k), (0.05, [7]))
    return [0, *np.repeat([1, 2, 3], k), *(event for p, more in optional if rng.random() < p for event in more)]


def jobs(rng):
    """Long, of sizes over decades, with shares of events of its own; the two first and last events always happen."""
    usual = np.array([0.3, 0.2, 0.15, 0.1, 0.1, 0.05, 0.04, 0.03, 0.02, 0.01])
    n = int(np.exp(rng.uniform(np.log(20), np.log(600))))
    return [10, 11, *rng.choice(10, n, p=rng.dirichlet(60 * usual)), 12, 13]


def markov(rng):
    """A random walk over eleven events that ends with probability .08 at each."""
    moves = np.random.default_rng(7).dirichlet(np.full(END + 1, 0.25), size=END)[:, :END]
    moves /= moves.sum(axis=1, keepdims=True)
    session = [0]
    while len(session) < MOST_EVENTS and rng.random() > 0.08:
        session.append(rng.choice(END, p=moves[session[-1]]))
    return [*session, END]


def three(rng):
    """Three kinds of work, each with sizes of its own."""
    kind = rng.integers(3)
    if kind == 0:
        return [0, *([1, 2] * (2 + rng.poisson(2))), 9]
    if kind == 1:
        return [0, 3, *([4] * (5 + rng.poisson(10))), 5, 9]
    return [0, 6, *rng.choice([7, 8, 1], 10 + rng.poisson(20), p=[0.5, 0.3, 0.2]), 9]


def cut(session, rng):
    """The first tenth to half of a session."""
    return session[: max(1, int(len(session) * rng.uniform(0.1, 0.5)))]


def looping(session, rng):
    """Up to four events in a row, repeated 4 to 11 times."""
    start = rng.integers(max(len(session) - 3, 1))
    return [*session[:start], *(session[start : start + 4] * rng.integers(4, 12)), *session[start:]]


def other(session, rng):
    """Its first and last events, and others in between."""
    return [*session[:2], *rng.choice(FOREIGN, max(2, len(session) - 3)), session[-1]]


def rare(session, rng):
    """An event that no normal session has, once or twice."""
    at = rng.integers(len(session))
    return [*session[:at], *[rng.choice(RARE)] * rng.integers(1, 3), *session[at:]]


def missing(session, rng):
    """All but one kind of event."""
    left_out = rng.choice(np.unique(session))
    return [event for event in session if event != left_out] or session[:1]


GRAMMARS = {one.__name__: one for one in (linear, blocks, jobs, markov, three)}
ODDITIES = {
    "broken off": cut,
    "broken off by an error": lambda session, rng: [*cut(session, rng), ERROR],
    "looping": looping,
    "other events": other,
    "rare event": rare,
    "event missing": missing,
}


def load_sessions(grammar, oddity, share, seed):
    """Events as indicators, the session of each, and a label for each session (1 = odd)."""
    rng = np.random.default_rng([seed, list(GRAMMARS).index(grammar), list(ODDITIES).index(oddity), share])
    y = (np.arange(N_SESSIONS) < N_SESSIONS * share // 100).astype(int)
    sessions = [list(GRAMMARS[grammar](rng)) for _ in y]
    sessions = [ODDITIES[oddity](session, rng) if odd else session for session, odd in zip(sessions, y, strict=True)]
    return (
        np.eye(N_EVENTS)[np.concatenate(sessions).astype(int)],
        np.repeat(np.arange(len(y)), list(map(len, sessions))),
        y,
    )


def measure(grammar, oddity, share):
    """Mean AUC of each method over seeds."""
    aucs = []
    for seed in SEEDS:
        X, ids, y = load_sessions(grammar, oddity, share, seed)
        how = {"random_state": seed, "n_jobs": THREADS}
        counts = np.stack([np.bincount(ids, weights=column) for column in X.T], axis=1)
        scores = [
            IDKGroupDetector(**how).fit(X, groups=ids).scores_,
            IDKGroupDetector(max_samples=16, group_max_samples=16, pool_size=None, **how).fit(X, groups=ids).scores_,
            IsolationForest(random_state=seed).fit(counts).score_samples(counts),
        ]
        aucs.append([float(roc_auc_score(y, -of_method)) for of_method in scores])
    return np.mean(aucs, axis=0).tolist()


def _tasks():
    return {
        f"{grammar}|{oddity}|{share}": Task(measure, (grammar, oddity, share))
        for share in SHARES
        for grammar in GRAMMARS
        for oddity in ODDITIES
    }


def _page(results):
    yield (
        f"{N_SESSIONS} made-up sessions of events, five grammars and six ways to be odd (`study/sessions.py`),"
        f" {len(SEEDS)} seeds: mean AUC by share of odd sessions, and in how many of the 30 sets the default is more"
        f" than {MOST_LOSS} below one of the others.\n"
    )
    rows = []
    for share in SHARES:
        aucs = np.array([aucs for key, aucs in results.items() if key.endswith(f"|{share}")])
        rows.append({"odd": f"{share} %", **{label: mean(list(aucs[:, k])) for k, label in enumerate(METHODS)}})
        rows[-1]["losses"] = int(np.sum(aucs[:, 0] < aucs[:, 1:].max(axis=1) - MOST_LOSS))
    yield table(rows)
    lost = {key: aucs for key, aucs in results.items() if aucs[0] < max(aucs[1:]) - MOST_LOSS}
    rows = [{"set": key, **dict(zip(METHODS, aucs, strict=True))} for key, aucs in lost.items()]
    yield f"### Sessions on which the default loses more than {MOST_LOSS}\n\n{table(rows)}"


SESSIONS_SECTION = Section("sessions", "Sessions of events", _tasks, _page)

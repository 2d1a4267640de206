"""Tables that are not meant well, and rankings of them."""

import dataclasses

import numpy as np
import pandas as pd

from isobag import detect
from isobag.data.rows import Rows
from isobag.datasets import make_card_accounts

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(2)>",
    "\"'><svg onload=alert(3)>",
    "😀 👩‍👩‍👧 ñ",
    "x" * 5_000,
    "nul\0, bell\a, right to left \u202eabc",
    "&lt;b&gt; {{ 7 * 7 }} {% raw %} ${1}",
    "javascript:alert(4)",
    "",
    "http://example.com/beacon.png",
]
HALF = "half \ud800 a character"
LONG = "a long name, " * 20 + "and its end"


def hostile_rows(**options):
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(size=(500, 3)), np.eye(3)[np.arange(10) % 3] * (8.0 + np.arange(10))[:, None]])
    frame = pd.DataFrame(X, columns=["<b>bold</b>", "b", LONG])
    frame["who"] = [f"person {i}" for i in range(500)] + HOSTILE
    frame["<img src=y>"] = "</td><script>alert(5)</script>"
    how = {"random_state": 0, "n_estimators": 20, "id_column": "who", "contamination": 0.03} | options
    return detect(frame, **how)


def hostile_groups(**options):
    X, features, labels, _ = make_card_accounts(random_state=0)
    names = dict(zip(dict.fromkeys(labels.tolist()), HOSTILE[:8], strict=False))
    frame = pd.DataFrame(X, columns=features)
    frame["account"] = [names.get(label, label) for label in labels.tolist()]
    frame["channel"] = np.where(np.arange(len(frame)) % 3, "web", "<i>shop</i>")
    frame.loc[frame["account"] == HOSTILE[0], "channel"] = "phone"
    frame.loc[frame["account"].isin(HOSTILE[:8]), features[0]] *= 30  # odd, so that the page tells of them
    frame["<u>note</u>"] = "x"
    tiny = pd.DataFrame({name: [float(frame[name].max())] * 2 for name in features})
    tiny["account"], tiny["channel"], tiny["<u>note</u>"] = "tiny", "web", "x"
    how = {"random_state": 0, "n_estimators": 20, "features": [*features, "channel"]} | options
    return detect(pd.concat([frame, tiny]), by="account", **how)


class Noise(Rows):
    """Rows that nobody keeps: the report asks for few of them."""

    def __init__(self, n, d):
        self.n, self.n_features = n, d

    def __len__(self):
        return self.n

    def blocks(self):
        raise AssertionError("a report looks at the rows it shows, not at all")

    def take(self, numbers):
        return np.random.default_rng(0).normal(size=(len(numbers), self.n_features))


def million_rows():
    """A ranking of a million rows with long labels and many columns; the report does not care how it came about."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        rng.normal(size=(300, 200)), columns=[f"column number {j} with a long name" for j in range(200)]
    )
    frame["who"] = [f"{k:0100}" for k in range(300)]
    small = detect(frame, id_column="who", random_state=0, n_estimators=10)
    n = 1_000_000
    scores = np.concatenate([small.scores, rng.lognormal(3, 0.5, n - 300)])
    order = np.argsort(scores, kind="stable")
    more = {"scores": scores, "order": order, "flagged": scores < small.judged.threshold, "evidence": {}}
    table = dataclasses.replace(small.table, cells=Noise(n, 200))
    return dataclasses.replace(small, **more, table=table, units=small.units._replace(data=Noise(n, 200)))


def many_groups():
    """10,000 groups."""
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50_000, 8)), columns=list("abcdefgh"))
    frame["group"] = [f"group {k:0100}" for k in np.repeat(np.arange(10_000), 5)]
    return detect(frame, by="group", random_state=0, n_estimators=10)

# %% [markdown]
# # A web server's log
#
# 567,498 connections to web servers, in the order of time, from the network log of KDD Cup 1999: duration, bytes
# sent and bytes received, as logarithms. 2,211 of them are attacks. We cut the log into stretches of 100
# connections, as one would look at a log without sessions, and look for stretches that are odd.
# %%
import os
from pathlib import Path

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from isobag import IDKGroupDetector

DATA = Path(os.environ.get("ISOBAG_DATA", "../shared/data"))
log = np.load(DATA / "point/http.npz")
n = len(log["X"]) // 100
stretches = log["X"][: 100 * n].reshape(n, 100, 3).astype(float)
attacks = log["y"][: 100 * n].reshape(n, 100).sum(axis=1)
print(f"{n:,} stretches, {np.count_nonzero(attacks)} with attacks: {attacks[attacks > 0].tolist()}")
# %% [markdown]
# The first 2,000 stretches hold no attack. Suppose they are known to be sound: that is what we learn from, and we
# score the rest. The comparison is what one would try first, the mean of each stretch and IsolationForest.
# %%
detector = IDKGroupDetector(calibrate=False, random_state=0, n_jobs=-1).fit(list(stretches[:2000]))
scores = detector.score_samples(list(stretches[2000:]))
means = stretches.mean(axis=1)
forest = IsolationForest(random_state=0).fit(means[:2000]).score_samples(means[2000:])

attacked = attacks[2000:] > 0


def say(name, scores, attacked=attacked):
    lowest = np.argsort(scores, kind="stable")[: attacked.sum()]
    auc = roc_auc_score(attacked, -scores)
    print(f"{name}: {attacked[lowest].sum()} of the {attacked.sum()} lowest have attacks, ROC AUC {auc:.2f}")


say("isobag, stretches     ", scores)
say("IsolationForest, means", forest)
# %% [markdown]
# So the 18 oddest stretches are pure attack, which is what counts for whoever looks at twenty of them; the
# forest's are not. But look at the AUC, which is no better than the forest's: stretches with one to three attacks
# among a hundred connections are ranked like any other. One connection in a hundred is not a group: that is a
# case for [points](../how_to/production.md).
# %%
order = np.argsort(scores, kind="stable")
ranks = np.empty(len(scores), dtype=int)
ranks[order] = np.arange(1, len(scores) + 1)
for low, high in ((1, 3), (30, 99), (100, 100)):
    part = (attacks[2000:] >= low) & (attacks[2000:] <= high)
    print(
        f"{low} to {high} attacks: {part.sum()} stretches, median rank {np.median(ranks[part]):.0f} of {len(scores):,}"
    )
# %% [markdown]
# ## What goes wrong without a clean start
#
# Now rank the log by itself, attacks and all, which is the wrong tool here:
# %%
by_itself = IDKGroupDetector(calibrate=False, random_state=0, n_jobs=-1).fit(list(stretches)).scores_
say("isobag, by itself     ", by_itself, attacks > 0)
say("IsolationForest, means", IsolationForest(random_state=0).fit(means).score_samples(means), attacks > 0)
# %% [markdown]
# 18 stretches are nothing but the same attack, over and over, and have each other for neighbours. They are far from a
# quarter of all stretches, though, and that counts as well.
#
# **The finding to check:** stretches 3,115 to 3,123 and 3,162 to 3,170 (counted from 0) are all attack. They are
# among the lowest once the model has learned from the first 2,000:
# %%
pure = np.flatnonzero(attacks == 100)
print(pure.tolist())
print("their ranks:", sorted(ranks[pure - 2000].tolist()))

# %% [markdown]
# # Speakers
#
# 4,505 recordings of single spoken digits (AudioMNIST). A recording is a group, its points are frames of 20
# MFCCs, some 26 for each. Nine men made 500 recordings each; five recordings are by a woman. Nobody says which.
# %%
import os
from pathlib import Path

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score

from isobag import IDKGroupDetector

DATA = Path(os.environ.get("ISOBAG_DATA", "../shared/data"))
recordings = np.load(DATA / "group/Speaker.npz")
X, group, odd = recordings["X"].astype(float), recordings["group"], recordings["y"] == 1
sizes = np.bincount(group)
print(f"{len(sizes):,} recordings of {sizes.min()} to {sizes.max()} frames, {odd.sum()} by another speaker")
# %%
scores = IDKGroupDetector(calibrate=False, random_state=0, n_jobs=-1).fit(X, groups=group).scores_
means = np.column_stack([np.bincount(group, column) / sizes for column in X.T])
forest = IsolationForest(random_state=0).fit(means).score_samples(means)
for name, found in (("isobag, recordings    ", scores), ("IsolationForest, means", forest)):
    lowest = np.argsort(found, kind="stable")[:5]
    print(f"{name}: speakers of the five lowest {recordings['speaker'][lowest].tolist()},", end=" ")
    print(f"ROC AUC {roc_auc_score(odd, -found):.3f}")
# %% [markdown]
# The five recordings by speaker 12 are the five oddest of 4,505. Averages put five recordings by speaker 6 first:
# the mean over a word's frames leaves out how its frames are spread.
#
# **The finding to check:** listen to these files of AudioMNIST, each named digit_speaker_take:
# %%
for g in np.argsort(scores, kind="stable")[:8]:
    digit, speaker, take = (int(recordings[name][g]) for name in ("digit", "speaker", "take"))
    print(f"{digit}_{speaker:02d}_{take}.wav  {sizes[g]:3d} frames  score {scores[g]:.4f}")
# %% [markdown]
# A word of caution: this is one woman among nine men, an easy case, and with other speakers it may be harder.

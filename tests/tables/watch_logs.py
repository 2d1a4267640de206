"""Made-up logs for tests of watches: entities, days, amounts, a way to pay, and faults on request."""

import numpy as np
import pandas as pd


def make_log(
    seed=0, days=40, entities=20, *, rows=(19, 34), factor=None, start=30, silent=None, card=None, missing=None
):
    """Rows with account, time, amount, pay. Faults are those of accounts A00 (factor), A01 (silent), A02, A03."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(*rows, (entities, days))
    if silent is not None:
        counts[1, silent:] = 0
    account = np.repeat(np.arange(entities), counts.sum(axis=1))
    day = np.concatenate([np.repeat(np.arange(days), own) for own in counts])
    amount = rng.lognormal(rng.uniform(3, 4, entities)[account], 0.5)
    is_late = day >= start
    amount[(account == 0) & is_late] *= factor or 1.0
    p_card = np.where((account == 2) & is_late & (card is not None), card or 0.0, 0.6)
    p_gap = np.where((account == 3) & is_late & (missing is not None), missing or 0.0, 0.03)
    amount[rng.random(len(day)) < p_gap] = np.nan
    second = rng.integers(0, 86_400, len(day))
    return pd.DataFrame(
        {
            "account": [f"A{k:02}" for k in account],
            "time": pd.Timestamp("2026-01-01") + pd.to_timedelta(day * 86_400 + second, unit="s"),
            "amount": amount.round(2),
            "pay": np.where(rng.random(len(day)) < p_card, "card", "cash"),
        }
    ).sample(frac=1, random_state=seed)


def by_day(frame):
    """The rows of each day."""
    return [day for _, day in frame.groupby(frame["time"].dt.normalize())]


def days_of(incidents, account):
    """State and what of the incidents of an account."""
    table = incidents.to_frame()
    table = table.to_pandas() if hasattr(table, "to_pandas") else table
    return table[table["account"] == account]

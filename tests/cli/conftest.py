import pandas as pd
import pytest

from isobag.datasets import make_card_accounts

pytest.importorskip("typer")


@pytest.fixture(scope="session")
def cards():
    X, names, labels, _ = make_card_accounts(30, 2, random_state=0)
    return pd.DataFrame(X, columns=names).assign(account=labels)


@pytest.fixture
def csv(cards, tmp_path):
    path = tmp_path / "cards.csv"
    cards.to_csv(path, index=False)
    return path

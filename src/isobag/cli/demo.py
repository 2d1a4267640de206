"""``isobag demo``: card accounts in which every transaction is ordinary and a few accounts are not."""

from isobag.cli import options as o
from isobag.cli.guard import guarded


@guarded
def demo(debug: o.Debug = False) -> None:
    """Look for odd card accounts in made-up transactions, twice: row by row, and account by account."""
    from isobag.demo import main  # noqa: PLC0415, loads scikit-learn

    main()

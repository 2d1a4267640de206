"""What tests of the reader ask of a table."""

import numpy as np
import pytest

from isobag.data.spool import Spool
from isobag.tables.learn import learn_table
from isobag.tables.reading import ReadOptions


def read_table(partitions, *, encoding=None, only_rows=None, spool=Spool, **options):
    return learn_table(partitions, ReadOptions.of(**options), encoding=encoding, only_rows=only_rows, spool=spool)


def on_disk(n_columns):
    return Spool(n_columns, kept_bytes=0)


def features(table):
    return table.rows.take(np.arange(len(table.rows)))


def refusal(source, **options):
    with pytest.raises(ValueError) as caught:
        read_table(source, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def roles(table):
    return {column.name: column.role for column in table.summary.columns}


def reasons(table):
    return {column.name: column.reason for column in table.summary.columns}

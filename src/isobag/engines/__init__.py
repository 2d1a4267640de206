"""The same verbs over many machines: ``isobag.engines.dask`` and ``isobag.engines.spark``."""

"""The report: one HTML file that needs no network, no server and no other file."""

from isobag.report.page import write_report

__all__ = ["write_report"]

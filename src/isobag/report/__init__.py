"""The page a person looks at: one HTML file that needs no network, no server and no other file."""

from isobag.report.findings import GroupFindings, PointFindings, group_findings, point_findings
from isobag.report.page import write_report

__all__ = ["GroupFindings", "PointFindings", "group_findings", "point_findings", "write_report"]

"""Which ball a point belongs to when several cover it."""

RULES = ("nearest", "covering", "smallest")
"""nearest: the ball of the nearest center of all, or none; covering: the nearest center among the balls that cover the
point; smallest: the smallest ball that covers it. Ties go to the lowest index in the partitioning."""

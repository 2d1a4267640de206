"""Placeholder until the account demo."""

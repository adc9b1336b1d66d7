"""Checks of `forebay doctor`, by subject."""

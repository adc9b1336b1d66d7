"""Followers of a journal, which apply its batches; one takes over from an owner that is silent."""

"""Requests as bytes: the bounds of each call, and the reader that checks them before decoding."""

"""Requests as bytes: the bounds of each call, and the reader that holds a request to them before it is decoded."""

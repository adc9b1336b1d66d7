"""Translates between the wire and the core. The only place with gRPC and `forebay.v1`."""

"""Calls and connections of the gRPC server, whatever their service."""

"""Translation between the wire and the core. The only layer with gRPC and `forebay.v1`."""

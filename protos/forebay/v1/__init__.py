"""The wire contract, generated from the `.proto` files beside it."""

"""Connection to the nodes of Kafka, or of a system with its protocol."""

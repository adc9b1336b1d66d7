"""Engine in a topic of Kafka: objects by name in the records of one partition."""

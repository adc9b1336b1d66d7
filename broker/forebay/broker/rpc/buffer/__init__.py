"""BufferService: publish, deliver, pull, replay and peek."""

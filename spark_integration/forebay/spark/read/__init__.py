"""Reading: batch and stream, from offsets to Arrow batches."""

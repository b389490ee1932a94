"""The sink: micro-batches and batch writes."""

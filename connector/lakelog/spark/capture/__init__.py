"""What a micro-batch is made from, according to the plan that Spark runs and its checkpoint."""

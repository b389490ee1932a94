"""What a micro-batch is made from: the plan that Spark runs, and what its checkpoint says."""

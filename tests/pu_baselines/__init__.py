"""Methods and measures that the solvers of positive and unlabelled examples are compared with."""

"""Learning from positive and unlabelled examples: USMO, its baselines, class priors and metrics."""

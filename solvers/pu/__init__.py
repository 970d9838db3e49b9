"""Learning from positive and unlabelled examples: USMO, class priors and thresholds."""

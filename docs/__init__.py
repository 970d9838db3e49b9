"""The documentation: its pages, and in ``generate`` what its build makes from code."""

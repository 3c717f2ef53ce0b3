"""What was measured, read from studies and files: inputs of commands, comparisons, explanations."""

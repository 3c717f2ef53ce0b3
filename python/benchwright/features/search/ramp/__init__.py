"""The ramp: levels, throughput with its noise, the decision to continue, the scalability law."""

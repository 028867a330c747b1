"""Host metrics (CPU, memory, network) from our sampler and from other monitors."""

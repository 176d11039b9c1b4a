"""Federated reinforcement learning over the paper's link: what the paper leaves to later work."""

"""The same protocols on real machines, over Flower; only this package imports ``flwr``."""

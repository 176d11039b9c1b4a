"""What runs on a small device: its turn, its disk, its messages, its connection.

Python, NumPy and an MQTT client are all that it needs; what else the package has is not imported.
"""

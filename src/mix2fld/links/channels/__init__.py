"""What arrives, and when: one file for each link, with its forecast beside it."""

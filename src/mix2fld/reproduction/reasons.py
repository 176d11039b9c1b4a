"""What the figures of the ledger mean: the part of it that no formula writes."""

REASONS: dict[str, str] = {
    "short": "",
    "privacy-accuracy": "",
    "inverse-count": "",
    "why": "",
}

"""The accuracy-bits frontier: every protocol a practitioner would pick, tuned with equal care."""

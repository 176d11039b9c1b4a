"""The paper's figures, tables and claims, measured again and judged."""

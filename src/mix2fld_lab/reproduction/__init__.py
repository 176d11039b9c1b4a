"""The paper's figures, tables and claims, reproduced and judged."""

"""What an operator is, and the rules, arithmetic and types that many operators share."""

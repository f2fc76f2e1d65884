"""What an operator is, and what the rules, references and lowerings of many of them share."""

"""The front end for transformers without weights: `config.json` as Hugging Face stores it."""

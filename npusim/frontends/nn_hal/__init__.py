"""Android NN HAL models: 1.0 and its successors."""

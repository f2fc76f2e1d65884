"""The rules of HAL models: functions that yield faults, with the text of the rule as docstring."""

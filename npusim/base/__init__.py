"""Helpers for all packages of npusim: files, text for terminals and spreadsheets, optional packages."""

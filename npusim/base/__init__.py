"""What all rooms of npusim may use: files written whole, text for terminals and spreadsheets, optional packages."""

"""What is measured: pure functions over one interaction, and the catalogue that names them all."""

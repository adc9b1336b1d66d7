"""Built-in stores of saved positions, one module each."""

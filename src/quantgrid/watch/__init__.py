"""The watch: rules over what a running cell sees of itself, and what is done when one fires."""
